// Command words finds words that the project's writing rules replace, in comments, documents and messages.
//
//	go run ./test/lint/words -list scripts/dev/words.txt FILE...
//
// It prints each place with the word to write instead, and fails if there is one. Generated code is skipped.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// rule is one line of the list: a pattern and the text to write instead of what it matches.
type rule struct {
	pattern *regexp.Regexp
	instead string
}

// wordList is a parsed list file.
type wordList struct {
	rules   []rule
	allowed []*regexp.Regexp // phrases that a rule would match by mistake
}

func main() {
	list := flag.String("list", "scripts/dev/words.txt", "file with the patterns")
	flag.Parse()
	words, err := readList(*list)
	if err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(2)
	}
	found := 0
	for _, file := range flag.Args() {
		src, err := os.ReadFile(file)
		if err != nil {
			fmt.Fprintln(os.Stderr, "words:", err)
			os.Exit(2)
		}
		for _, hit := range words.check(prose(file, src)) {
			fmt.Printf("%s:%d: %q: write %s\n", file, hit.line, hit.word, hit.instead)
			found++
		}
	}
	if found > 0 {
		fmt.Printf("%d words to replace\n", found)
		os.Exit(1)
	}
}

// readList parses a list file. Each line is empty, a comment (#), "pattern -> what to write", or "allow pattern".
func readList(file string) (*wordList, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	w := &wordList{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if phrase, ok := strings.CutPrefix(line, "allow "); ok {
			re, err := compile(phrase)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, n, err)
			}
			w.allowed = append(w.allowed, re)
			continue
		}
		pattern, instead, ok := strings.Cut(line, " -> ")
		if !ok {
			return nil, fmt.Errorf("%s:%d: want \"pattern -> what to write\"", file, n)
		}
		re, err := compile(strings.TrimSpace(pattern))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		w.rules = append(w.rules, rule{re, strings.TrimSpace(instead)})
	}
	return w, lines.Err()
}

// compile makes a pattern match whole words in any case, also across the end of a line.
func compile(pattern string) (*regexp.Regexp, error) {
	return regexp.Compile(`(?i)\b(?:` + strings.ReplaceAll(pattern, " ", `\s+`) + `)\b`)
}

// hit is one match of a rule.
type hit struct {
	line          int
	word, instead string
}

// check returns the matches in text, ordered by line.
func (w *wordList) check(text []byte) []hit {
	for _, re := range w.allowed {
		for _, at := range re.FindAllIndex(text, -1) {
			blank(text[at[0]:at[1]], '|')
		}
	}
	var hits []hit
	for _, r := range w.rules {
		for _, at := range r.pattern.FindAllIndex(text, -1) {
			hits = append(hits, hit{
				line:    1 + bytes.Count(text[:at[0]], []byte("\n")),
				word:    strings.Join(strings.Fields(string(text[at[0]:at[1]])), " "),
				instead: r.instead,
			})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(a.line, b.line) })
	return hits
}
