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

// Errors of logs that Import refuses as a whole.
var (
	// ErrUnreadable means that most lines of a log are unreadable.
	ErrUnreadable = errors.New("so nothing is imported; is this an access log in combined, common or Caddy's JSON format?")
	// ErrNoUserAgents means that views in a log lack their User-Agents. See
	// [Options.WithoutBotsCheck].
	ErrNoUserAgents = errors.New("so bots cannot be told from readers, and nothing is imported")
)

// Summary is the result of an import.
type Summary struct {
	Lines    int // of the log
	Requests int // lines that are requests
	// Unreadable is the number of unreadable lines, and FirstUnreadable the first
	// few.
	Unreadable      int
	FirstUnreadable []*accesslog.LineError
	// OtherLog is the number of unreadable lines that Caddy wrote about something
	// other than a request.
	OtherLog int
	// Unchecked is the number of requests that are views, but without a
	// User-Agent in the log. FirstUnchecked is the number of the first such line.
	Unchecked, FirstUnchecked int
	// NoPage is the number of requests whose path is not a page of any list.
	NoPage int
	// Reasons counts requests for pages that are not views, by reason, once for
	// each list.
	Reasons map[ruleset.Reason]int
	// Views counts the views published to the aggregator, by list. It still
	// rejects duplicates among them.
	Views map[string]int
	// Skipped are lists that only an edge can count. SkippedVotes are polls,
	// which access logs do not contain.
	Skipped      []string
	SkippedVotes []string
	// Already reports whether all of the log was applied before.
	Already bool
}

// firstUnreadable is the length of Summary.FirstUnreadable.
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
		p(s.Unreadable, "are unreadable:")
		s.writeUnreadable(w)
	}
	p(s.NoPage, "are not for a page of a list")
	reasons := make([]ruleset.Reason, 0, len(s.Reasons))
	for r := range s.Reasons {
		reasons = append(reasons, r)
	}
	slices.SortFunc(reasons, func(a, b ruleset.Reason) int {
		return cmp.Or(cmp.Compare(s.Reasons[b], s.Reasons[a]), cmp.Compare(a, b))
	})
	for _, r := range reasons {
		p(s.Reasons[r], "are for a page but do not count: "+describe(r))
	}
	lists := make([]string, 0, len(s.Views))
	for l := range s.Views {
		lists = append(lists, l)
	}
	slices.Sort(lists)
	for _, l := range lists {
		p(s.Views[l], "views of list "+l+", duplicates included")
	}
	if s.Unchecked > 0 {
		fmt.Fprintf(w, "The log lacks the User-Agents of %d requests: bots among them count as readers.\n", s.Unchecked)
	}
	for _, l := range s.Skipped {
		fmt.Fprintf(w, "Skipped list %s: a placeholder names its items, which only an edge can evaluate.\n", l)
	}
	for _, l := range s.SkippedVotes {
		fmt.Fprintf(w, "Skipped list %s: it counts votes, and access logs contain none.\n", l)
	}
	if s.Already {
		fmt.Fprintln(w, "Nothing changed: all of this was imported before.")
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

// check returns an error if a log must not be imported: nobody can undo an
// import.
func (s *Summary) check(withoutBotsCheck bool) error {
	bad := s.Unreadable
	if s.Requests > 0 {
		bad -= s.OtherLog // Caddy may write all of its logs to one file
	}
	if 2*bad > s.Requests+s.Unreadable {
		var lines strings.Builder
		s.writeUnreadable(&lines)
		return fmt.Errorf("%d of %d lines are unreadable, %w\n%s", s.Unreadable, s.Lines, ErrUnreadable, strings.TrimRight(lines.String(), "\n"))
	}
	if s.Unchecked > 0 && !withoutBotsCheck {
		return fmt.Errorf("the log lacks the User-Agents of %d requests for pages (the first is on line %d), %w", s.Unchecked, s.FirstUnchecked, ErrNoUserAgents)
	}
	return nil
}

// describe puts a reason into words.
func describe(r ruleset.Reason) string {
	switch r {
	case ruleset.Bot:
		return "a bot's"
	case ruleset.Status:
		return "the list does not count the status"
	case ruleset.Method:
		return "not a GET"
	case ruleset.ContentType:
		return "the list does not count the media type"
	case ruleset.BadItem:
		return "the item's id is too long or contains control characters"
	}
	return string(r)
}
