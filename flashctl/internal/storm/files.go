package storm

import (
	"fmt"
	"syscall"
)

// spareFiles are the descriptors of a process besides those of its connections.
const spareFiles = 64

// raiseFileLimit raises the soft limit of open files to the hard one and returns it.
func raiseFileLimit() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("read the limit of open files: %w", err)
	}
	if limit.Cur < limit.Max {
		limit.Cur = limit.Max
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			return 0, fmt.Errorf("raise the limit of open files to %d: %w", limit.Max, err)
		}
	}
	return int(min(limit.Cur, 1<<30)), nil
}

// fits returns an error that names the largest count if connections of processes need more files than the limit of a
// process allows.
func fits(connections, processes, limit int) error {
	if largest := max(limit-spareFiles, 0) * processes; connections > largest {
		return fmt.Errorf("the hard limit of %d open files allows at most %d connections of %d processes, not %d",
			limit, largest, processes, connections)
	}
	return nil
}
