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
	fileAhead     = 5 * time.Second // how far the file is ahead of what is issued
)

// FileLease is the lease of a single process: worker id 0, and a high-water time in a file, so that nothing is issued
// again after a restart, also when the clock was set back meanwhile. The directory is locked against a second process.
type FileLease struct {
	file    *os.File
	opened  time.Time // for what has passed since, by the monotonic clock
	from    int64     // first ms of this process
	mu      sync.Mutex
	high    int64 // as written in the file; -1: closed
	highest int64 // ms asked for
}

// OpenFileLease opens the lease in dir, which must exist.
func OpenFileLease(dir string) (*FileLease, error) {
	path := filepath.Join(dir, highWaterFile)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the operator says where
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
			return errors.New("the file does not hold a number: restore it, or remove it once the clock is known to be right")
		}
	}
	l.from = max(l.opened.UnixMilli(), high+1)
	l.highest = high
	return l.write(l.from + fileAhead.Milliseconds())
}

// Now is this machine's time, but never before what an earlier process may have issued.
func (l *FileLease) Now() time.Time {
	now := time.Now()
	// From the high-water on, time passes by the monotonic clock until the machine's time has caught up.
	if least := time.UnixMilli(l.from).Add(now.Sub(l.opened)); least.After(now) {
		return least.UTC()
	}
	return now.UTC()
}

// Worker implements Lease. It writes the file when ms is beyond what is written there.
func (l *FileLease) Worker(ms int64) (int, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.high < 0 || ms < l.from {
		return 0, false
	}
	if ms > l.high {
		if err := l.write(ms + fileAhead.Milliseconds()); err != nil {
			return 0, false // the disk is full or gone: nothing may be issued that a restart would not know of
		}
	}
	l.highest = max(l.highest, ms)
	return 0, true
}

// Close gives back what was not used of the high-water, and unlocks the directory.
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

// write puts a high-water of fixed width over the old one, in one piece that fits into any disk's sector.
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
