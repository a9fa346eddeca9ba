import '../base/tokens.css'
import '../base/parts.css'
import './buyer.css'
import {start} from '../base/app.ts'
import {mount} from '../base/mount.ts'
import {App} from './app.tsx'

start()
mount(() => <App />)
