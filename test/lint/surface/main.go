// Command surface makes the tables of docs/settings.md from the structs that read the environment. Its test bounds how
// many names a person who runs the system has to know: settings, metrics, words of the glossary and targets of make.
//
//	go run ./test/lint/surface [--check]     (in the root of the repository)
//
// With --check it changes nothing, and fails if the page is stale.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

// page is the document with the tables, between these marks.
const (
	page  = "docs/settings.md"
	begin = "<!-- settings: made by make generate -->\n"
	end   = "<!-- end of settings -->\n"
)

func main() {
	check := flag.Bool("check", false, "fail if the page is stale")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "surface:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	s, err := read("services", "pkg")
	if err != nil {
		return err
	}
	made, err := tables(s)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	head, rest, begins := strings.Cut(string(old), begin)
	_, tail, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return fmt.Errorf("%s lacks %q or %q", page, begin, end)
	}
	fresh := head + begin + made + end + tail
	if fresh == string(old) {
		return nil
	}
	if check {
		return fmt.Errorf("%s is stale: run 'make generate'", page)
	}
	return os.WriteFile(page, []byte(fresh), 0o644)
}
