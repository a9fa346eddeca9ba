// Settings of both documents, for `npm run dev` and for scripts/build.mjs.
import {defineConfig} from 'vite'

const target = ['chrome103', 'edge103', 'firefox100', 'safari16.4']
// The API of a running system, for `npm run dev` only.
const api = process.env.BASE_URL ?? 'http://127.0.0.1:8080'

export default defineConfig({
  appType: 'mpa',
  oxc: {jsx: {runtime: 'automatic', importSource: 'preact'}},
  build: {target, cssTarget: ['chrome123', 'firefox120', 'safari17.5'], modulePreload: {polyfill: false}, assetsInlineLimit: 0, reportCompressedSize: false, sourcemap: false},
  server: {proxy: {'/v1': {target: api, changeOrigin: true}, '/auth': {target: api, changeOrigin: true}}},
})
