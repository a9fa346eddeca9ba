// Parts of the page that few visits need. They are files of their own, loaded on demand.

import {getConfig} from '../api/session.ts'
import {retryDelay} from './retry.ts'
import {sleep} from './timer.ts'

// chunk loads a part, and again after a failure. A part of a version that is no longer served is absent: then the page
// is loaded again, unless that has happened already.
export async function chunk<T>(load: () => Promise<T>): Promise<T> {
  for (let n = 0; ; n++) {
    try {
      return await load()
    } catch {
      await sleep(retryDelay(n, 0))
      const [how] = performance.getEntriesByType('navigation') as PerformanceNavigationTiming[]
      if (how?.type !== 'reload' && (await getConfig()).ok) location.reload()
    }
  }
}
