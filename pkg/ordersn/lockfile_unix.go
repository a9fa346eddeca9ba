//go:build unix

package ordersn

import (
	"os"
	"syscall"
)

// lockFile takes a lock that ends with the process.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
