package rules

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"time"
)

// Load reads a file and applies its rules. An error changes nothing.
func (g *Registry) Load(path string) error {
	_, err := g.load(path, [32]byte{})
	return err
}

// load reads the file and, if its hash is not known, applies its rules. It returns the hash of what it read even if
// the rules are invalid, so that an invalid file is reported once.
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

// Watch reads the file at the given interval and applies its rules when the content has changed, until ctx ends. An
// invalid or missing file changes nothing. It compares the content and not the modification time, which a mounted
// Kubernetes volume or a coarse file system may not change.
func (g *Registry) Watch(ctx context.Context, path string, every time.Duration) error {
	var known [32]byte
	if text, err := os.ReadFile(path); err == nil { //nolint:gosec // a setting
		known = sha256.Sum256(text)
		if set, err := Parse(text); err != nil || !g.holds(set) {
			known = [32]byte{} // the rules in force are others: read the file at once
		}
	}
	missing := false
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		hash, err := g.load(path, known)
		switch unread := err != nil && hash == known; {
		case unread && missing:
		case err != nil:
			missing = unread
			if unread {
				g.o.Log.ErrorContext(ctx, "reading the rules file failed; keeping current rules", "error", err)
				g.o.OnReload("file", err)
			} else {
				g.o.Log.ErrorContext(ctx, "rules rejected, the previous ones stay in force", "error", err)
			}
		case hash != known:
			missing = false
			g.o.Log.InfoContext(ctx, "rules applied", "file", path)
		default:
			missing = false
		}
		known = hash
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
