package bots

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/configfile"
)

// Limits of a file of patterns, which bound the cost of a wrong file. The public
// list has 1,500 patterns in 0.6 MB.
const (
	maxPatternsBytes = 16 << 20
	maxPatterns      = 100_000
	maxPattern       = 1000 // bytes of one
)

// maxReason is the number of bytes of a pattern that a reason shows.
const maxReason = 60

// Patterns are regular expressions to search for in User-Agents. Their number
// matters little: one pass over the User-Agent finds the literal texts that
// patterns need, and only the regular expressions whose text occurs run.
type Patterns struct {
	all []pattern
	// texts are the literals; owner is the pattern of each.
	texts *automaton
	owner []int
	// always lists patterns without a literal, which run on every User-Agent.
	always []int
}

// pattern is one entry of a file.
type pattern struct {
	class  string // one of ruleset.BotClasses, or "" where the file does not say
	reason string
	// re is nil if finding one of the literals suffices.
	re *regexp.Regexp
}

// Len returns the number of patterns.
func (p *Patterns) Len() int { return len(p.all) }

// LoadFile reads a file of patterns, see [ParsePatterns].
func LoadFile(path string) (*Patterns, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the patterns of bots: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPatternsBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the patterns of bots: %w", err)
	}
	return ParsePatterns(path, data)
}

// entry holds the fields we use of one object of a file.
type entry struct {
	Pattern *string  `json:"pattern"`
	Tags    []string `json:"tags"`
}

// ParsePatterns parses patterns in the JSON format of the public list
// github.com/monperrus/crawler-user-agents: an array of objects that have a
// "pattern", a Go regular expression, and may have "tags". A tag that names a
// class of bot sets the class. ParsePatterns ignores other keys. Errors join a
// [*configfile.Problem] for every mistake; name is the file name in them.
func ParsePatterns(name string, data []byte) (*Patterns, error) {
	if len(data) > maxPatternsBytes {
		return nil, &configfile.Problem{Place: configfile.Place{File: name}, Message: fmt.Sprintf("the file has more than %d MB", maxPatternsBytes>>20)}
	}
	r := &patternReader{name: name, data: bytes.TrimPrefix(data, []byte("\ufeff"))}
	r.read()
	if len(r.problems) > 0 {
		return nil, errors.Join(r.problems...)
	}
	r.p.texts = newAutomaton(r.texts)
	return &r.p, nil
}

// patternReader reads one file.
type patternReader struct {
	name     string
	data     []byte
	p        Patterns
	texts    []literal
	problems []error
}

// addf adds a problem at an offset into the data.
func (r *patternReader) addf(offset int64, path, format string, args ...any) {
	before := r.data[:min(max(offset, 0), int64(len(r.data)))]
	r.problems = append(r.problems, &configfile.Problem{
		Place: configfile.Place{
			File:   r.name,
			Line:   1 + bytes.Count(before, []byte("\n")),
			Column: len(before) - bytes.LastIndexByte(before, '\n'),
		},
		Path:    path,
		Message: fmt.Sprintf(format, args...),
	})
}

func (r *patternReader) read() {
	const want = `want an array of objects with a "pattern", as in [{"pattern": "Googlebot"}]`
	var all []json.RawMessage
	if err := json.Unmarshal(r.data, &all); err != nil {
		if s := (*json.SyntaxError)(nil); errors.As(err, &s) {
			r.addf(s.Offset-1, "", "invalid JSON: %v", err)
		} else {
			r.addf(0, "", want)
		}
		return
	}
	if all == nil { // null
		r.addf(0, "", want)
		return
	}
	if len(all) > maxPatterns {
		r.addf(0, "", "the file has more than %d patterns", maxPatterns)
		return
	}
	for i, at := range r.offsets(len(all)) {
		path := fmt.Sprintf("[%d]", i)
		var e entry
		if err := json.Unmarshal(all[i], &e); err != nil {
			switch kind := (*json.UnmarshalTypeError)(nil); {
			case errors.As(err, &kind) && kind.Field == "pattern":
				r.addf(at, path+".pattern", "want a string, not a %s", kind.Value)
			case errors.As(err, &kind) && kind.Field != "":
				r.addf(at, path+".tags", "want an array of strings, not a %s", kind.Value)
			default:
				r.addf(at, path, want)
			}
			continue
		}
		r.add(at, path+".pattern", &e)
	}
}

// offsets returns the offsets of the n values of the array.
func (r *patternReader) offsets(n int) []int64 {
	all := make([]int64, 0, n)
	dec := json.NewDecoder(bytes.NewReader(r.data))
	if _, err := dec.Token(); err != nil {
		return nil
	}
	for dec.More() {
		at := dec.InputOffset()
		for strings.IndexByte(" \t\r\n,", r.data[at]) >= 0 {
			at++
		}
		all = append(all, at)
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return all // unreachable: the decoder has accepted the data
		}
	}
	return all
}

// add compiles one entry.
func (r *patternReader) add(at int64, path string, e *entry) {
	switch {
	case e.Pattern == nil:
		r.addf(at, path, "missing")
		return
	case len(*e.Pattern) > maxPattern:
		r.addf(at, path, "%d bytes: at most %d are allowed", len(*e.Pattern), maxPattern)
		return
	}
	re, err := regexp.Compile(*e.Pattern)
	if err != nil {
		r.addf(at, path, "%v; patterns are regular expressions of Go (RE2), which have no lookaround and no back references", err)
		return
	}
	if re.MatchString("") {
		r.addf(at, path, "%q matches every User-Agent", *e.Pattern)
		return
	}
	n := len(r.p.all)
	found := required(*e.Pattern)
	if found.complete {
		re = nil
	}
	for _, text := range found.texts {
		r.texts = append(r.texts, text)
		r.p.owner = append(r.p.owner, n)
	}
	if len(found.texts) == 0 {
		r.p.always = append(r.p.always, n)
	}
	reason := *e.Pattern
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	r.p.all = append(r.p.all, pattern{class: classOfTags(e.Tags), reason: "pattern " + reason, re: re})
}

// match returns the first matching pattern of the file, or nil.
func (p *Patterns) match(userAgent string) *pattern {
	first := len(p.all)
	try := func(n int) {
		if n < first && (p.all[n].re == nil || p.all[n].re.MatchString(userAgent)) {
			first = n
		}
	}
	p.texts.find(userAgent, func(text, _ int) bool {
		try(p.owner[text])
		return true
	})
	for _, n := range p.always {
		try(n)
	}
	if first == len(p.all) {
		return nil
	}
	return &p.all[first]
}

// classOfTags returns the class for a tag of the public list or one of our own.
func classOfTags(tags []string) string {
	for _, tag := range tags {
		if slices.Contains(ruleset.BotClasses, tag) {
			return tag
		}
		switch tag {
		case "ai-crawler":
			return "ai_crawler"
		case "search-engine":
			return "search_engine"
		case "seo":
			return "seo_tool"
		case "feed-reader":
			return "feed_reader"
		case "http-library":
			return "http_library"
		case "monitoring":
			return "monitor"
		case "browser-automation":
			return "headless_browser"
		case "social-preview":
			return "link_preview"
		case "advertising", "academic":
			return "crawler"
		}
	}
	return ""
}
