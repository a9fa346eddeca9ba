import {config, session} from './app.ts'

// mayCompute reports whether this buyer may replace a challenge of another kind by a proof of work.
export const mayCompute = () => config.value.captcha_work !== 'accessible' || !!session.value?.roles?.includes('accessible')
