// Programs of the project that tests start: on ports of their own, ended with SIGTERM.

import {execFileSync, spawn, type ChildProcess} from 'node:child_process'
import {once} from 'node:events'
import {mkdtempSync, rmSync} from 'node:fs'
import {createServer} from 'node:net'
import {tmpdir} from 'node:os'
import path from 'node:path'

const root = path.resolve(import.meta.dirname, '../../..')

// Program is a running program; its folder is its home.
export interface Program {
  child: ChildProcess
  folder: string
}

// start builds the program of a Go package and runs it; it waits until its output satisfies `ready`. The environment
// variable `binary` may name a program that is built already. Go links again only if something has changed: one worker
// runs all tests that start programs, so that no two write the same file.
export async function start(
  binary: string,
  goPackage: string,
  args: string[],
  ready: (output: string) => boolean,
  env: Record<string, string> = {},
): Promise<Program> {
  const folder = mkdtempSync(path.join(tmpdir(), 'flashsale-'))
  const file = process.env[binary] ?? path.join(root, '.bin', binary.toLowerCase())
  if (!process.env[binary]) execFileSync('go', ['build', '-o', file, goPackage], {cwd: root, stdio: 'inherit'})
  const child = spawn(file, args, {env: {PATH: process.env.PATH, HOME: folder, ...env}, stdio: ['ignore', 'pipe', 'inherit']})
  let text = ''
  await new Promise<void>((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`${goPackage} ended with ${code}: ${text}`)))
    child.stdout?.on('data', (chunk) => {
      text += String(chunk)
      if (ready(text)) resolve()
    })
  })
  return {child, folder}
}

export async function stop({child, folder}: Program): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    child.kill('SIGTERM')
    await once(child, 'exit')
  }
  rmSync(folder, {recursive: true, force: true})
}

// greeting is true once allinone has printed its sales and its console.
export const greeting = (output: string) => /\/sales\/\d+/.test(output) && output.includes('/console')

const given = new Set<number>()

// freePort returns a port of those of pkg/porttest: a program may be built first, and none of them is that of an outgoing
// connection meanwhile.
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 28_600 + Math.floor(Math.random() * 1391)
    if (given.has(port)) continue
    given.add(port)
    const server = createServer().listen(port, '127.0.0.1')
    try {
      await once(server, 'listening')
    } catch {
      continue // in use
    }
    server.close()
    await once(server, 'close')
    return port
  }
}
