package importer

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/accesslog"
)

// Errors for logs of which nothing is imported.
var (
	// ErrUnreadable means that most lines of a log cannot be read.
	ErrUnreadable = errors.New("so nothing is imported; is this an access log in combined, common or Caddy's JSON format?")
	// ErrNoUserAgents means that a log does not name the User-Agents of views. See
	// [Options.WithoutBotsCheck].
	ErrNoUserAgents = errors.New("so bots cannot be told from readers, and nothing is imported")
)

// Summary is what an import found in a log.
type Summary struct {
	Lines    int // of the log
	Requests int // that could be read
	// Unreadable lines, and the first few of them.
	Unreadable      int
	FirstUnreadable []*accesslog.LineError
	// OtherLog are the unreadable lines that Caddy wrote about something else than a
	// request.
	OtherLog int
	// Unchecked requests are views by what the log has, but it does not name their
	// User-Agents. FirstUnchecked is the number of the first such line.
	Unchecked, FirstUnchecked int
	// NoPage are requests whose path is no page of any list.
	NoPage int
	// Reasons are why requests for pages are no views, once for each list.
	Reasons map[ruleset.Reason]int
	// Views are those handed to the aggregator, by list. It still sorts out the
	// ones that come too soon after another.
	Views map[string]int
	// Skipped are lists that only an edge can count, and SkippedVotes those of
	// votes, which no access log has.
	Skipped      []string
	SkippedVotes []string
	// Already says that all of the log was in the counts before.
	Already bool
}

// firstUnreadable is how many lines that could not be read are named.
const firstUnreadable = 5

func (s *Summary) unreadable(bad *accesslog.LineError) {
	s.Unreadable++
	if errors.Is(bad, accesslog.ErrNotAccess) {
		s.OtherLog++
	}
	if len(s.FirstUnreadable) < firstUnreadable {
		s.FirstUnreadable = append(s.FirstUnreadable, bad)
	}
}

func (s *Summary) unchecked(line int) {
	if s.Unchecked == 0 {
		s.FirstUnchecked = line
	}
	s.Unchecked++
}

// Write writes the summary for a person.
func (s *Summary) Write(w io.Writer) {
	p := func(n int, what string) { fmt.Fprintf(w, "%10d  %s\n", n, what) }
	p(s.Lines, "lines")
	if s.Unreadable > 0 {
		p(s.Unreadable, "cannot be read:")
		s.writeUnreadable(w)
	}
	p(s.NoPage, "are for no page of a list")
	reasons := make([]ruleset.Reason, 0, len(s.Reasons))
	for r := range s.Reasons {
		reasons = append(reasons, r)
	}
	slices.SortFunc(reasons, func(a, b ruleset.Reason) int {
		return cmp.Or(cmp.Compare(s.Reasons[b], s.Reasons[a]), cmp.Compare(a, b))
	})
	for _, r := range reasons {
		p(s.Reasons[r], "are for a page, but no view: "+describe(r))
	}
	lists := make([]string, 0, len(s.Views))
	for l := range s.Views {
		lists = append(lists, l)
	}
	slices.Sort(lists)
	for _, l := range lists {
		p(s.Views[l], "views of list "+l)
	}
	if s.Unchecked > 0 {
		fmt.Fprintf(w, "The log does not name the User-Agents of %d requests: the bots among them were counted as readers.\n", s.Unchecked)
	}
	for _, l := range s.Skipped {
		fmt.Fprintf(w, "List %s is left out: its items are named by a placeholder, which only an edge can fill in.\n", l)
	}
	for _, l := range s.SkippedVotes {
		fmt.Fprintf(w, "List %s is left out: it counts votes, and no access log has them.\n", l)
	}
	if s.Already {
		fmt.Fprintln(w, "All of this was imported before: nothing has changed.")
	}
}

func (s *Summary) writeUnreadable(w io.Writer) {
	for _, l := range s.FirstUnreadable {
		fmt.Fprintf(w, "%14s%v\n", "", l)
	}
	if n := s.Unreadable - len(s.FirstUnreadable); n > 0 {
		fmt.Fprintf(w, "%14s… and %d more\n", "", n)
	}
}

// check returns an error if a log must not be imported: a log that is imported
// stays in the counts.
func (s *Summary) check(withoutBotsCheck bool) error {
	bad := s.Unreadable
	if s.Requests > 0 {
		bad -= s.OtherLog // Caddy may write all of its logs to one file
	}
	if 2*bad > s.Requests+s.Unreadable {
		var lines strings.Builder
		s.writeUnreadable(&lines)
		return fmt.Errorf("%d of %d lines cannot be read, %w\n%s", s.Unreadable, s.Lines, ErrUnreadable, strings.TrimRight(lines.String(), "\n"))
	}
	if s.Unchecked > 0 && !withoutBotsCheck {
		return fmt.Errorf("the log does not name the User-Agents of %d requests for pages (the first is on line %d), %w", s.Unchecked, s.FirstUnchecked, ErrNoUserAgents)
	}
	return nil
}

// describe says a reason in words.
func describe(r ruleset.Reason) string {
	switch r {
	case ruleset.Bot:
		return "a bot's"
	case ruleset.Status:
		return "the status does not count"
	case ruleset.Method:
		return "not a GET"
	case ruleset.ContentType:
		return "the media type does not count"
	case ruleset.BadItem:
		return "the item's id is too long or has control characters"
	}
	return string(r)
}
