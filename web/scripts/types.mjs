// Generates src/api/<service>.gen.ts from services/<service>/api/openapi.yaml.
//
//   node scripts/types.mjs [folder]     writes into the folder (default: src/api)
import {mkdir, writeFile} from 'node:fs/promises'
import path from 'node:path'
import {pathToFileURL} from 'node:url'
import openapiTS, {astToString} from 'openapi-typescript'

const web = path.resolve(import.meta.dirname, '..')
const folder = path.resolve(process.argv[2] ?? path.join(web, 'src/api'))
await mkdir(folder, {recursive: true})
for (const service of ['seckill', 'order', 'inventory']) {
  const source = path.join(web, '../services', service, 'api/openapi.yaml')
  const ast = await openapiTS(pathToFileURL(source))
  const head = `// Generated from services/${service}/api/openapi.yaml by \`npm run types\`. Do not edit.\n\n`
  await writeFile(path.join(folder, `${service}.gen.ts`), head + astToString(ast))
}
