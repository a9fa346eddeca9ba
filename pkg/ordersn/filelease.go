package ordersn

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	highWaterFile = "ordersn.high-water"
	fileAhead     = 5 * time.Second // lead of the written high-water mark over the issued times
)

// FileLease is the lease of a single process. It has worker id 0 and a high-water mark of time in a file, so that no
// number is issued twice after a restart, even if the clock was set back. The directory is locked against a second
// process.
type FileLease struct {
	file    *os.File
	opened  time.Time // start of the time measured by the monotonic clock
	from    int64     // first ms of this process
	mu      sync.Mutex
	high    int64 // value in the file; -1: closed
	highest int64 // latest ms passed to Worker
}

// OpenFileLease opens the lease in dir, which must exist.
func OpenFileLease(dir string) (*FileLease, error) {
	path := filepath.Join(dir, highWaterFile)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the operator sets the path
	if err != nil {
		return nil, fmt.Errorf("high-water of order numbers: %w", err)
	}
	l := &FileLease{file: file, opened: time.Now()}
	if err := l.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("high-water of order numbers in %s: %w", path, err), file.Close())
	}
	return l, nil
}

func (l *FileLease) open() error {
	if err := lockFile(l.file); err != nil {
		return fmt.Errorf("another process uses this directory: %w", err)
	}
	text, err := os.ReadFile(l.file.Name())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	high := int64(0)
	if s := strings.TrimSpace(string(text)); s != "" {
		if high, err = strconv.ParseInt(s, 10, 64); err != nil {
			return errors.New("the file does not hold a number: restore it, or remove it after checking the clock")
		}
	}
	l.from = max(l.opened.UnixMilli(), high+1)
	l.highest = high
	return l.write(l.from + fileAhead.Milliseconds())
}

// Now returns this machine's time, but never a time for which an earlier process may have issued.
func (l *FileLease) Now() time.Time {
	now := time.Now()
	// While the wall clock is behind the high-water mark, time is measured from there by the monotonic clock.
	if least := time.UnixMilli(l.from).Add(now.Sub(l.opened)); least.After(now) {
		return least.UTC()
	}
	return now.UTC()
}

// Worker implements Lease. It writes the file if ms is beyond its high-water mark.
func (l *FileLease) Worker(ms int64) (int, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.high < 0 || ms < l.from {
		return 0, false
	}
	if ms > l.high {
		if err := l.write(ms + fileAhead.Milliseconds()); err != nil {
			return 0, false // the disk is full or missing: a number issued now could be issued again after a restart
		}
	}
	l.highest = max(l.highest, ms)
	return 0, true
}

// Close lowers the high-water mark to the latest time in use, and unlocks the directory.
func (l *FileLease) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.high < 0 {
		return nil
	}
	err := l.write(l.highest)
	l.high = -1
	return errors.Join(err, l.file.Close())
}

// write overwrites the high-water mark. It has a fixed width and fits into one disk sector, so the write is atomic.
func (l *FileLease) write(high int64) error {
	if _, err := l.file.WriteAt(fmt.Appendf(nil, "%019d\n", high), 0); err != nil {
		return err
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	l.high = high
	return nil
}
