//go:build !unix

package ordersn

import "os"

// lockFile does nothing on systems without flock: there the operator must avoid two processes on one directory.
func lockFile(*os.File) error { return nil }
