package rules

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale.internal/pkg/lifecycle"
)

//go:embed put.lua
var luaPut string

var scriptPut = redis.NewScript(luaPut)

// ErrConflict means that the rules were changed concurrently.
var ErrConflict = errors.New("rules: changed concurrently")

// Store is the rules in Redis: one text with a version that grows by one with each change. Processes that Follow it
// apply a change within a second, by a message or by polling.
type Store struct {
	rdb     redis.UniversalClient
	key     string
	timeout time.Duration
	every   time.Duration
}

// NewStore returns a Store. The prefix is that of the limiters ("rl" if empty).
func NewStore(rdb redis.UniversalClient, prefix string) *Store {
	if prefix == "" {
		prefix = "rl"
	}
	return &Store{rdb: rdb, key: prefix + ":{rules}", timeout: 500 * time.Millisecond, every: 900 * time.Millisecond}
}

// Get returns the rules in Redis and their version, which is 0 if there are none.
func (s *Store) Get(ctx context.Context) (Set, int64, error) {
	text, version, err := s.get(ctx)
	if err != nil || version == 0 {
		return Set{Version: formatVersion}, 0, err
	}
	set, err := parseStored(text)
	return set, version, err
}

func (s *Store) get(ctx context.Context) (text string, version int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	v, err := s.rdb.HMGet(ctx, s.key, "text", "version").Result()
	if err != nil {
		return "", 0, fmt.Errorf("rules: %w", err)
	}
	text, _ = v[0].(string)
	number, _ := v[1].(string)
	if number == "" {
		return "", 0, nil
	}
	if version, err = strconv.ParseInt(number, 10, 64); err != nil {
		return "", 0, fmt.Errorf("rules: version %q", number)
	}
	return text, version, nil
}

// Put replaces the rules if they still have that version, and returns the new one. It returns ErrConflict if they do
// not.
func (s *Store) Put(ctx context.Context, set Set, version int64) (int64, error) {
	set.Version = formatVersion
	if err := set.Validate(); err != nil {
		return 0, fmt.Errorf("rules: %w", err)
	}
	text, err := format(set)
	if err != nil {
		return 0, err
	}
	return s.put(ctx, text, version, version+1)
}

func (s *Store) put(ctx context.Context, text string, from, to int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	done, err := scriptPut.Run(ctx, s.rdb, []string{s.key}, from, to, text).Int64()
	switch {
	case err != nil:
		return 0, fmt.Errorf("rules: %w", err)
	case done == 0:
		return 0, ErrConflict
	}
	return to, nil
}

// With returns the set with a rule in it, in place of the one with its name.
func (s Set) With(r Rule) Set {
	s = s.Reverted(r.Name)
	s.Rules = append(s.Rules, r)
	return s
}

// Without returns the set without a rule, which is then not in force although the file may have it.
func (s Set) Without(name string) Set {
	s = s.Reverted(name)
	s.Deleted = append(s.Deleted, name)
	return s
}

// Reverted returns a set without anything about a rule, so that the file's applies.
func (s Set) Reverted(name string) Set {
	s.Rules = slices.DeleteFunc(slices.Clone(s.Rules), func(r Rule) bool { return r.Name == name })
	s.Deleted = slices.DeleteFunc(slices.Clone(s.Deleted), func(n string) bool { return n == name })
	return s
}

// Follow applies the rules in Redis to a Registry, until ctx ends. Invalid rules change nothing. If Redis has lost the
// rules, Follow writes the last valid ones back: rules are only removed by a new version.
func (s *Store) Follow(ctx context.Context, g *Registry) error {
	sub := s.rdb.Subscribe(ctx, s.key)
	defer func() { _ = sub.Close() }()
	var f follower
	f.s, f.g = s, g
	messages := sub.Channel()
	for {
		f.poll(ctx)
		pause := time.NewTimer(s.every*3/4 + rand.N(s.every/4)) //nolint:gosec // jitter
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil
		case _, open := <-messages:
			pause.Stop()
			if !open {
				messages = nil
			}
		case <-pause.C:
		}
	}
}

type follower struct {
	s       *Store
	g       *Registry
	version int64
	text    string // of that version, if it was valid
	reads   lifecycle.Failures
}

func (f *follower) poll(ctx context.Context) {
	text, version, err := f.s.get(ctx)
	if ctx.Err() != nil {
		return
	}
	f.reads.Observe(ctx, f.g.o.Log, "reading rules from redis", err)
	if err != nil {
		return // the rules in force stay
	}
	known := f.version
	switch {
	case version == known:
		return
	case version == 0 && f.text != "":
		if _, err := f.s.put(ctx, f.text, 0, known); err == nil {
			f.g.o.Log.WarnContext(ctx, "redis had lost the rules, wrote them back", "version", known)
		}
		return
	}
	f.version = version
	set, err := parseStored(text)
	if err == nil {
		err = f.g.Overlay(set)
	}
	f.g.o.OnReload("redis", err)
	if err != nil {
		f.g.o.Log.ErrorContext(ctx, "rules in redis rejected, the previous ones stay in force",
			"version", version, "error", err)
		return
	}
	f.text = text
	f.g.o.Log.InfoContext(ctx, "rules in redis applied", "version", version)
}
