// Command links checks that Markdown files refer to what exists: relative links to files, headings and lines, paths of
// the repository in inline code (`pkg/bus`), tests by name and, in table rows that link Go files, the functions that
// the row names.
//
//	go run ./test/lint/links FILE.md...     (in the root of the repository)
//
// It prints each broken reference with its place, and fails if there is one. It follows no link to another host.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

func main() {
	flag.Parse()
	broken := 0
	tests, err := testNames(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "links:", err)
		os.Exit(2)
	}
	for _, file := range flag.Args() {
		src, err := os.ReadFile(file)
		if err != nil {
			fmt.Fprintln(os.Stderr, "links:", err)
			os.Exit(2)
		}
		report := func(line int, what string, err error) {
			if err != nil {
				fmt.Printf("%s:%d: %s: %v\n", file, line, what, err)
				broken++
			}
		}
		for _, l := range links(src) {
			report(l.line, l.target, resolve(file, l.target))
		}
		for _, p := range paths(src) {
			report(p.line, p.target, exists(p.target))
		}
		for _, n := range namedTests(src) {
			report(n.line, n.target, tests.find(n.target))
		}
		for _, f := range functions(src) {
			report(f.line, f.name, declared(file, f))
		}
	}
	if broken > 0 {
		fmt.Printf("%d broken references\n", broken)
		os.Exit(1)
	}
}

// link is the target of a link or an image, and the line where it starts.
type link struct {
	line   int
	target string
}

var (
	// An inline link or image, [text](target "title"); the text may hold a badge and may span two lines.
	inline = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)`)
	// A reference definition, [name]: target
	definition = regexp.MustCompile(`(?m)^ {0,3}\[[^\]^]+\]:\s+<?([^\s>]+)`)
	code       = regexp.MustCompile("`[^`\n]*`")
	heading    = regexp.MustCompile(`(?m)^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$`)
	htmlAnchor = regexp.MustCompile(`<[^>]+\b(?:id|name)="([^"]+)"`)
	repoPath   = regexp.MustCompile("`((?:pkg|services|flashctl|test|scripts|deploy|docs)/[A-Za-z0-9_./-]+)`")
	// A function or method in inline code: Name, Type.Name
	function     = regexp.MustCompile("`(?:[A-Za-z]\\w*\\.)*([A-Za-z]\\w*)`")
	namedTest    = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w*)`")
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	lineAnchor   = regexp.MustCompile(`^L(\d+)(?:-L(\d+))?$`)
)

// links returns the links of a Markdown text outside of code, without those that name a host or a mail address.
func links(src []byte) []link {
	text := code.ReplaceAllFunc(withoutFences(src), func(b []byte) []byte { return bytes.Repeat([]byte("|"), len(b)) })
	var found []link
	for _, re := range []*regexp.Regexp{inline, definition} {
		for _, at := range re.FindAllSubmatchIndex(text, -1) {
			target := string(text[at[2]:at[3]])
			if u, err := url.Parse(target); err == nil && u.Scheme != "" {
				continue
			}
			found = append(found, link{1 + bytes.Count(text[:at[2]], []byte("\n")), target})
		}
	}
	return found
}

// withoutFences returns a copy of src of the same lines, in which the lines of fenced code are empty.
func withoutFences(src []byte) []byte {
	lines := bytes.Split(bytes.Clone(src), []byte("\n"))
	fence := ""
	for i, line := range lines {
		mark := ""
		if t := bytes.TrimSpace(line); bytes.HasPrefix(t, []byte("```")) || bytes.HasPrefix(t, []byte("~~~")) {
			mark = string(t[:3])
		}
		if fence == "" && mark == "" {
			continue
		}
		lines[i] = nil
		switch fence {
		case "":
			fence = mark
		case mark:
			fence = ""
		}
	}
	return bytes.Join(lines, []byte("\n"))
}

// resolve returns an error if the target of a link in file does not exist.
func resolve(file, target string) error {
	u, err := url.Parse(target)
	if err != nil {
		return err
	}
	path := file
	if u.Path != "" {
		if filepath.IsAbs(u.Path) {
			return fmt.Errorf("absolute path")
		}
		path = filepath.Join(filepath.Dir(file), filepath.FromSlash(u.Path))
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("no such file")
	}
	if u.Fragment == "" {
		return nil
	}
	if info.IsDir() {
		return fmt.Errorf("a directory has no headings")
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if m := lineAnchor.FindStringSubmatch(u.Fragment); m != nil && filepath.Ext(path) != ".md" {
		last, _ := strconv.Atoi(m[1])
		if m[2] != "" {
			last, _ = strconv.Atoi(m[2])
		}
		if n := bytes.Count(src, []byte("\n")); last < 1 || last > n {
			return fmt.Errorf("the file has %d lines", n)
		}
		return nil
	}
	if !anchors(src)[u.Fragment] {
		return fmt.Errorf("no such heading")
	}
	return nil
}

// anchors returns the anchors of a Markdown text, as GitHub makes them from headings, and its HTML ids.
func anchors(src []byte) map[string]bool {
	text := withoutFences(src)
	found := map[string]bool{}
	for _, m := range heading.FindAllSubmatch(text, -1) {
		name := slug(string(m[1]))
		unique := name
		for n := 1; found[unique]; n++ {
			unique = name + "-" + strconv.Itoa(n)
		}
		found[unique] = true
	}
	for _, m := range htmlAnchor.FindAllSubmatch(text, -1) {
		found[string(m[1])] = true
	}
	return found
}

// paths returns the paths of the repository that a Markdown text names in inline code.
func paths(src []byte) []link {
	text := withoutFences(src)
	var found []link
	for _, at := range repoPath.FindAllSubmatchIndex(text, -1) {
		found = append(found, link{1 + bytes.Count(text[:at[2]], []byte("\n")), string(text[at[2]:at[3]])})
	}
	return found
}

// exists returns an error if the working directory, the root of the repository, does not hold the path.
func exists(path string) error {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("no such path in the repository")
	}
	return nil
}

// namedTests returns the tests that a Markdown text names in inline code.
func namedTests(src []byte) []link {
	text := withoutFences(src)
	var found []link
	for _, at := range namedTest.FindAllSubmatchIndex(text, -1) {
		found = append(found, link{1 + bytes.Count(text[:at[2]], []byte("\n")), string(text[at[2]:at[3]])})
	}
	return found
}

// testSet holds the names of tests, fuzz tests and benchmarks.
type testSet []string

// find returns an error if no name begins with this one: a document may shorten a name.
func (s testSet) find(name string) error {
	for _, n := range s {
		if strings.HasPrefix(n, name) {
			return nil
		}
	}
	return errors.New("no such test")
}

// testNames returns the tests below the folder.
func testNames(root string) (testSet, error) {
	var names testSet
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		src, err := os.ReadFile(path)
		for _, m := range testFunction.FindAllSubmatch(src, -1) {
			names = append(names, string(m[1]))
		}
		return err
	})
	return names, err
}

// rowFunction is a function that a table row names beside links to Go files.
type rowFunction struct {
	line  int
	name  string
	files []string
}

// functions returns the functions that table rows with links to Go files name in inline code.
func functions(src []byte) []rowFunction {
	var found []rowFunction
	for i, line := range bytes.Split(withoutFences(src), []byte("\n")) {
		if !bytes.HasPrefix(line, []byte("|")) {
			continue
		}
		var files []string
		for _, m := range inline.FindAllSubmatch(line, -1) {
			if target := string(m[1]); strings.HasSuffix(target, ".go") {
				files = append(files, target)
			}
		}
		if len(files) == 0 {
			continue
		}
		for _, m := range function.FindAllSubmatch(linkText.ReplaceAll(afterFirstCell(line), nil), -1) {
			found = append(found, rowFunction{i + 1, string(m[1]), files})
		}
	}
	return found
}

// afterFirstCell returns a table row without its first cell, which describes the step.
func afterFirstCell(row []byte) []byte {
	_, rest, _ := bytes.Cut(row[1:], []byte("|"))
	return rest
}

// declared returns an error if none of the linked files declares the function.
func declared(file string, f rowFunction) error {
	declaration := regexp.MustCompile(`(?m)^func (?:\([^)]*\) )?` + f.name + `[\[(]`)
	for _, linked := range f.files {
		src, err := os.ReadFile(filepath.Join(filepath.Dir(file), filepath.FromSlash(linked)))
		if err == nil && declaration.Match(src) {
			return nil
		}
	}
	return fmt.Errorf("no such function in %s", strings.Join(f.files, ", "))
}

var linkText = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)

// slug returns the anchor of a heading: lower case, hyphens for spaces, no punctuation.
func slug(heading string) string {
	heading = linkText.ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, heading)
}
