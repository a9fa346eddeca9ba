package rules

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"time"
)

// Load puts the rules of a file in force, or says why not.
func (g *Registry) Load(path string) error {
	_, err := g.load(path, [32]byte{})
	return err
}

// load reads the file and, if it is not the one of that hash, puts its rules in force. The hash is that of what was read,
// also if it was no good: a bad file is complained about once.
func (g *Registry) load(path string, known [32]byte) ([32]byte, error) {
	text, err := os.ReadFile(path) //nolint:gosec // a setting
	if err != nil {
		return known, fmt.Errorf("rules: %w", err)
	}
	hash := sha256.Sum256(text)
	if hash == known {
		return hash, nil
	}
	set, err := Parse(text)
	if err == nil {
		err = g.Apply(set)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	g.o.OnReload("file", err)
	return hash, err
}

// Watch reads the file every so often and puts its rules in force when its content has changed, until ctx ends. A file that
// is no good, or not there, changes nothing: what was in force stays. The content is compared and not the time, which a
// mounted Kubernetes volume or a coarse file system may not move.
func (g *Registry) Watch(ctx context.Context, path string, every time.Duration) error {
	var known [32]byte
	if text, err := os.ReadFile(path); err == nil { //nolint:gosec // a setting
		known = sha256.Sum256(text)
		if set, err := Parse(text); err != nil || !g.holds(set) {
			known = [32]byte{} // not what is in force: read it at the first look
		}
	}
	gone := false
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		hash, err := g.load(path, known)
		switch unread := err != nil && hash == known; {
		case unread && gone:
		case err != nil:
			gone = unread
			g.o.Log.ErrorContext(ctx, "rules not taken over, the old ones stay in force", "error", err)
			if unread {
				g.o.OnReload("file", err)
			}
		case hash != known:
			gone = false
			g.o.Log.InfoContext(ctx, "rules taken over", "file", path)
		default:
			gone = false
		}
		known = hash
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
