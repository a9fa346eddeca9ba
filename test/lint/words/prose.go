package main

import (
	"bytes"
	"go/scanner"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// prose returns a copy of src, of the same length and with the same lines, in which only text written for people is
// kept. Code is replaced by |, and the marks of comments by spaces, so that a phrase may span two lines of a comment.
func prose(file string, src []byte) []byte {
	switch base := filepath.Base(file); filepath.Ext(base) {
	case ".go":
		return goProse(src)
	case ".md":
		return markdownProse(src)
	case ".lua", ".sql":
		return commentProse(src, dashComment)
	case ".txt": // the chart's NOTES.txt
		return slices.Clone(src)
	case ".tpl":
		return commentProse(src, templateComment)
	case ".yaml", ".yml":
		return commentProse(src, yamlText)
	default: // shell scripts, Makefile, Dockerfile, *.conf
		return commentProse(src, hashComment)
	}
}

var (
	generated    = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	inlineCode   = regexp.MustCompile("`[^`\n]*`")
	markdownLink = regexp.MustCompile(`\]\([^)\n]*\)`)

	dashComment     = regexp.MustCompile(`(?m)(?:^|\s)--(.*)$`)
	hashComment     = regexp.MustCompile(`(?m)(?:^|\s)##?(.*)$`)
	templateComment = regexp.MustCompile(`(?ms)\{\{-? ?/\*(.*?)\*/|^\s*#(?-s:(.*))$|fail "((?-s:[^"]*))"`)
	yamlText        = regexp.MustCompile(`(?m)(?:^|\s)#(.*)$|\b(?:description|summary|title): (.*)$|\{\{-? ?/\*(.*)\*/`)
)

// goProse keeps comments and the strings that look like sentences: those in double quotes with a space in them.
func goProse(src []byte) []byte {
	text := code(src)
	if generated.Match(src) {
		return text
	}
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(src))
	var s scanner.Scanner
	s.Init(file, src, func(token.Position, string) {}, scanner.ScanComments)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return text
		}
		at := file.Offset(pos)
		switch {
		case tok == token.COMMENT && !strings.HasPrefix(lit, "//go:") && !strings.HasPrefix(lit, "//nolint"):
			copy(text[at:], "  "+lit[2:])
		case tok == token.STRING && lit[0] == '"' && strings.Contains(lit, " "):
			copy(text[at+1:], lit[1:len(lit)-1])
		}
	}
}

// markdownProse keeps all but code and the targets of links.
func markdownProse(src []byte) []byte {
	text := slices.Clone(src)
	fence := ""
	for at := 0; at < len(text); {
		end := at + bytes.IndexByte(text[at:], '\n')
		if end < at {
			end = len(text)
		}
		line := text[at:end]
		mark := ""
		if t := bytes.TrimSpace(line); bytes.HasPrefix(t, []byte("```")) || bytes.HasPrefix(t, []byte("~~~")) {
			mark = string(t[:3])
		}
		switch {
		case fence == "" && mark != "":
			fence = mark
			blank(line, '|')
		case fence != "":
			if mark == fence {
				fence = ""
			}
			blank(line, '|')
		}
		at = end + 1
	}
	for _, re := range []*regexp.Regexp{inlineCode, markdownLink} {
		for _, at := range re.FindAllIndex(text, -1) {
			blank(text[at[0]:at[1]], '|')
		}
	}
	return text
}

// commentProse keeps what the groups of the pattern match, without inline code.
func commentProse(src []byte, comment *regexp.Regexp) []byte {
	text := code(src)
	for _, at := range comment.FindAllSubmatchIndex(src, -1) {
		for g := 2; g < len(at); g += 2 {
			if at[g] < 0 {
				continue
			}
			from := bytes.LastIndexByte(src[:at[g]], '\n') + 1
			if len(bytes.Trim(src[from:at[g]], " \t#-")) == 0 {
				blank(text[from:at[g]], ' ')
			}
			copy(text[at[g]:at[g+1]], src[at[g]:at[g+1]])
		}
	}
	for _, at := range inlineCode.FindAllIndex(text, -1) {
		blank(text[at[0]:at[1]], '|')
	}
	return text
}

// code returns a copy of src in which all but white space is replaced.
func code(src []byte) []byte {
	text := slices.Clone(src)
	for i, c := range text {
		if c != '\n' && c != '\t' && c != ' ' {
			text[i] = '|'
		}
	}
	return text
}

// blank overwrites text with c, except for line ends.
func blank(text []byte, c byte) {
	for i := range text {
		if text[i] != '\n' {
			text[i] = c
		}
	}
}
