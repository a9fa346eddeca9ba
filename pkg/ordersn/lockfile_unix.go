//go:build unix

package ordersn

import (
	"os"
	"syscall"
)

// lockFile locks a file until the process ends.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
