// Runs the unit tests: bundles each file of test/unit with rolldown (which Vite brings), then node's test runner.
import {spawnSync} from 'node:child_process'
import {mkdtemp, readdir, rm} from 'node:fs/promises'
import path from 'node:path'
import {rolldown} from 'rolldown'

const web = path.resolve(import.meta.dirname, '..')
process.chdir(web)
const files = (await readdir('test/unit')).filter((name) => name.endsWith('.test.ts')).map((name) => path.join('test/unit', name))
const out = await mkdtemp(path.join(web, 'node_modules/.unit-'))
let code = 1
try {
  // Modules of the pages read these when they are loaded.
  const banner = [
    "globalThis.location ??= new URL('http://localhost/');",
    "if (!globalThis.navigator?.languages) Object.defineProperty(globalThis, 'navigator', {value: {languages: ['en'], onLine: true}, configurable: true});",
    'globalThis.document ??= {hidden: false, addEventListener() {}, removeEventListener() {}};',
    'globalThis.addEventListener ??= () => {};',
  ].join('\n')
  const bundle = await rolldown({input: files, platform: 'node', external: /^node:/})
  await bundle.write({dir: out, format: 'esm', entryFileNames: '[name].mjs', banner})
  await bundle.close()
  const tests = (await readdir(out)).filter((name) => name.endsWith('.test.mjs')).map((name) => path.join(out, name))
  code = spawnSync(process.execPath, ['--test', ...tests], {stdio: 'inherit'}).status ?? 1
} finally {
  await rm(out, {recursive: true, force: true})
}
process.exit(code)
