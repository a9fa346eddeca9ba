import '../base/tokens.css'
import '../base/parts.css'
import './provider.css'
import {start} from '../base/app.ts'
import {mount} from '../base/mount.ts'
import {Check} from './check.tsx'
import {CheckModel} from './check-model.ts'

start()
const model = new CheckModel(decodeURIComponent(location.pathname.split('/')[2] ?? ''))
model.start()
mount(() => <Check model={model} />)
