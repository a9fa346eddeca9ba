import type {ComponentChildren} from 'preact'
import {useEffect, useRef} from 'preact/hooks'

// Dialog is a modal native dialog, open while it is rendered.
export function Dialog({title, children, onClose}: {title: string; children: ComponentChildren; onClose: () => void}) {
  const ref = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const dialog = ref.current
    const opener = document.activeElement as HTMLElement | null
    dialog?.showModal()
    // The dialog is removed before this is called, and a removed dialog does not return the focus.
    return () => opener?.focus()
  }, [])
  return (
    <dialog ref={ref} aria-labelledby="dialog-title" onCancel={(e) => (e.preventDefault(), onClose())}>
      <h2 id="dialog-title">{title}</h2>
      {children}
    </dialog>
  )
}
