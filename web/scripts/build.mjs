// Builds dist/ and THIRD_PARTY.md. The buyer's document becomes one file, with chunks in hashed files that it loads on
// demand; the assets of the other documents are hashed files. The result depends on the sources and package-lock.json only.
//
//   node scripts/build.mjs
import {readFileSync} from 'node:fs'
import {readFile, rm, writeFile} from 'node:fs/promises'
import path from 'node:path'
import {build} from 'vite'
import {thirdParty} from './third-party.mjs'

const web = path.resolve(import.meta.dirname, '..')
const dist = path.join(web, 'dist')
const bundled = new Set() // ids of the modules in the result

const collect = {
  name: 'collect',
  generateBundle(_, bundle) {
    for (const file of Object.values(bundle)) for (const id of Object.keys(file.modules ?? {})) bundled.add(id)
  },
}

// tables writes each table of another language as a list of texts in the order of the English keys: the keys are in
// the document once.
const tables = {
  name: 'tables',
  enforce: 'pre',
  transform(_, id) {
    const file = /\/words\/(\w+)\.(\w+)\.ts$/.exec(id)
    if (!file || file[2] === 'en') return null
    const read = (text) => {
      const entries = new Map([...text.matchAll(/^ {2}(\w+): (['"])(.*)\2,$/gm)].map((m) => [m[1], m[3]]))
      // An entry in another form would be left out here and shift the texts after it.
      if (entries.size !== [...text.matchAll(/^ {2}\S/gm)].length) this.error(`${id}: each entry needs one line`)
      return entries
    }
    const english = [...read(readFileSync(id.replace(`.${file[2]}.ts`, '.en.ts'), 'utf8')).keys()]
    const own = read(readFileSync(id, 'utf8'))
    const texts = english.map((key) => own.get(key))
    if (own.size !== english.length || texts.some((t) => t === undefined || /[|'\\]/.test(t))) this.error(`${id} and its English table differ`)
    return {
      code: `import {${file[1]} as en} from './${file[1]}.en.ts'
const texts = '${texts.join('|')}'.split('|')
export const ${file[1]} = /* @__PURE__ */ Object.fromEntries(Object.keys(en).map((key, i) => [key, texts[i]]))`,
      map: null,
    }
  },
}

// The object through which a chunk of the buyer's document uses the bindings of the inline script, which has no address.
const shared = 'globalThis.$shared'

const names = (list, form) => list.split(',').map((one) => form(...one.trim().split(/ as /)))

// inline puts the script and the style of a document into it. The element stays a module, so that it runs after the
// document is parsed. Chunks of the script stay files: their imports from it become reads of the shared object.
const inline = {
  name: 'inline',
  enforce: 'post',
  generateBundle(_, bundle) {
    const html = bundle['index.html']
    const entry = Object.values(bundle).find((file) => file.isEntry)
    let text = html.source
    let style = ''
    let code = entry.code.trim()
    for (const [name, file] of Object.entries(bundle)) {
      if (file === entry || file === html || !/\.(js|css)$/.test(name) || name.startsWith('assets/worker-')) continue
      if (file.type === 'chunk') {
        code = replaceOnce(code, new RegExp(`[\\w$]+\\(\\(\\)=>import\\(\`\\./${path.basename(name)}\`\\),__VITE_PRELOAD__\\)`), () => `import(\`/${name}\`)`)
        file.code = replaceOnce(file.code, new RegExp(`import\\{([^}]*)\\}from[\`"']\\./${path.basename(entry.fileName)}[\`"'];?`), (_, list) =>
          `const{${names(list, (from, to) => (to ? `${from}:${to}` : from))}}=${shared};`)
        if (/\bimport[{*]/.test(file.code)) this.error(`${name} imports from more than the document`)
      } else {
        style += String(file.source).trim()
        if (/<\/style/i.test(style)) this.error(`${name} holds a sequence that ends a style element`)
        text = replaceOnce(text, new RegExp(`<link rel="stylesheet"[^>]*href="/${name}">`), () => `<style>${style}</style>`)
        delete bundle[name]
      }
    }
    code = replaceOnce(code, /export\{([^}]*)\};?$/, (_, list) => `${shared}={${names(list, (from, to = from) => `${to}:${from}`)}};`)
    if (/<\/script|<!--/i.test(code)) this.error(`${entry.fileName} holds a sequence that ends a script element`)
    text = replaceOnce(text, new RegExp(`<script type="module"[^>]*src="/${entry.fileName}"></script>`), () => '')
    text = replaceOnce(text, '</body>', () => `  <script type="module">${code}</script>\n  </body>`)
    delete bundle[entry.fileName]
    html.source = text.replace(/^\s*\n/gm, '')
  },
}

// unloaded replaces Vite's loader of chunks, which preloads what they import: the chunks of the document import nothing.
const unloaded = {
  name: 'unloaded',
  enforce: 'pre',
  load: (id) => (id === '\0vite/preload-helper.js' ? 'export const __vitePreload = (load) => load()' : null),
}

function replaceOnce(text, pattern, by) {
  const next = text.replace(pattern, by)
  if (next === text) throw new Error(`there is no ${pattern}`)
  return next
}

const worker = {format: 'es', rollupOptions: {output: {entryFileNames: 'assets/worker-[name]-[hash].js'}}}

await rm(dist, {recursive: true, force: true})
process.env.NODE_ENV = 'production'
const common = {root: web, configFile: path.join(web, 'vite.config.ts'), logLevel: 'warn', mode: 'production'}
await build({
  ...common,
  plugins: [tables, unloaded, collect, inline],
  worker,
  build: {
    outDir: dist,
    emptyOutDir: false,
    cssCodeSplit: false,
    rollupOptions: {input: path.join(web, 'index.html'), output: {chunkFileNames: 'assets/buyer-[name]-[hash].js'}},
  },
})
for (const name of ['console.html', 'challenge.html']) {
  await build({
    ...common,
    publicDir: false,
    plugins: [tables, collect],
    worker,
    build: {
      outDir: dist,
      emptyOutDir: false,
      rollupOptions: {
        input: path.join(web, name),
        output: {entryFileNames: 'assets/[name]-[hash].js', chunkFileNames: 'assets/[name]-[hash].js', assetFileNames: 'assets/[name]-[hash][extname]'},
      },
    },
  })
  const document = path.join(dist, name)
  await writeFile(document, (await readFile(document, 'utf8')).replace(/^\s*\n/gm, ''))
}
await writeFile(path.join(web, 'THIRD_PARTY.md'), await thirdParty(web, bundled))
