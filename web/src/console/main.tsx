import '../base/tokens.css'
import '../base/parts.css'
import './console.css'
import {start} from '../base/app.ts'
import {mount} from '../base/mount.ts'
import {App} from './app.tsx'

// After a new version is served, a chunk of the old one may be absent: the page is loaded again, once.
addEventListener('vite:preloadError', (event) => {
  const key = 'flashsale:reloaded'
  const last = Number(sessionStorage.getItem(key))
  if (Date.now() - last < 60_000) return
  event.preventDefault()
  sessionStorage.setItem(key, String(Date.now()))
  location.reload()
})

start()
mount(() => <App />)
