package importer

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/accesslog"
	"github.com/hotboard/hotboard/ruleset/bots"
)

// botCache is how many User-Agents' verdicts are remembered.
const botCache = 10_000

// judge tells which requests of a log are views, as an edge would have, and
// keeps the score.
type judge struct {
	rules   *ruleset.Ruleset
	lists   []*ruleset.List // that are counted
	index   map[*ruleset.List]int
	bots    *bots.Classifier
	content [sha256.Size]byte
	day     string // of salt
	salt    []byte
	targets []ruleset.Target
	hits    []listHit
	summary Summary
}

// listHit is a view of one of the judge's lists, by its index.
type listHit struct {
	hit.Hit
	list int
}

func newJudge(o Options, content [sha256.Size]byte) (*judge, error) {
	rules, only := o.Rules, o.List
	j := &judge{rules: rules, index: map[*ruleset.List]int{}, bots: bots.New(rules.Bots, botCache), content: content,
		summary: Summary{Reasons: map[ruleset.Reason]int{}, Views: map[string]int{}}}
	j.bots.SetPatterns(o.Patterns)
	if only != "" && rules.List(only) == nil {
		return nil, fmt.Errorf("the rules have no list %q", only)
	}
	for _, l := range rules.Lists {
		switch {
		case only != "" && l.Name != only:
		case l.Votes != nil && only != "":
			return nil, fmt.Errorf("list %s counts votes, and no access log has them", l.Name)
		case l.Votes != nil:
			j.summary.SkippedVotes = append(j.summary.SkippedVotes, l.Name)
		case l.ID != "":
			j.summary.Skipped = append(j.summary.Skipped, l.Name)
		case len(l.Pages) > 0:
			j.index[l] = len(j.lists)
			j.lists = append(j.lists, l)
			j.summary.Views[l.Name] = 0
		}
	}
	if len(j.lists) == 0 {
		return nil, fmt.Errorf("no list of the rules can be imported: a list needs page patterns, and one that names its items by a placeholder (id) can be counted by an edge only")
	}
	return j, nil
}

// views returns the views that a request is. The slice is valid until the next
// call.
func (j *judge) views(e *accesslog.Entry) []listHit {
	j.summary.Requests++
	j.hits = j.hits[:0]
	j.targets = j.rules.Match(j.targets[:0], e.Path)
	j.targets = slices.DeleteFunc(j.targets, func(t ruleset.Target) bool { _, ok := j.index[t.List]; return !ok })
	if len(j.targets) == 0 {
		j.summary.NoPage++
		return nil
	}
	reason := ruleset.CheckLogged(e.Method, e.Header)
	if reason == "" && e.KnowsUserAgent && j.bots.Classify(e.UserAgent, e.IP).Bot {
		reason = ruleset.Bot
	}
	for _, t := range j.targets {
		why := cmp.Or(reason, t.List.CheckResponse(e.Status, e.ResponseHeader), t.Reason)
		if why != "" {
			j.summary.Reasons[why]++
			continue
		}
		h := hit.Hit{Kind: hit.View, List: t.List.Name, Item: t.Item, Time: e.Time.UnixMilli(),
			Visitor: ruleset.Visitor(j.saltOf(e.Time), e.IP, e.UserAgent)}
		if p := t.List.Published(e.ResponseHeader); !p.IsZero() {
			h.Published, h.PublishedFrom = p.UnixMilli(), hit.FromOrigin
		}
		if h.Valid() != nil { // a time of 1970 and before
			j.summary.Reasons[ruleset.Invalid]++
			continue
		}
		j.summary.Views[t.List.Name]++
		j.hits = append(j.hits, listHit{h, j.index[t.List]})
	}
	return j.hits
}

// saltOf returns the salt of a UTC day. It follows from the content, so that the
// visitors of a log are the same whenever it is imported, and cannot be guessed
// by who does not have the log.
func (j *judge) saltOf(t time.Time) []byte {
	if day := t.UTC().Format(time.DateOnly); day != j.day {
		m := hmac.New(sha256.New, j.content[:])
		m.Write([]byte("hotboard import " + day))
		j.day, j.salt = day, m.Sum(nil)
	}
	return j.salt
}

// firstUnreadable is how many lines that could not be read are named.
const firstUnreadable = 5

func (j *judge) unreadable(bad *accesslog.LineError) {
	j.summary.Unreadable++
	if len(j.summary.FirstUnreadable) < firstUnreadable {
		j.summary.FirstUnreadable = append(j.summary.FirstUnreadable, bad)
	}
}

// Summary is what an import found in a log.
type Summary struct {
	Lines    int // of the log
	Requests int // that could be read
	// Unreadable lines, and the first few of them.
	Unreadable      int
	FirstUnreadable []*accesslog.LineError
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

// Write writes the summary for a person.
func (s *Summary) Write(w io.Writer) {
	p := func(n int, what string) { fmt.Fprintf(w, "%10d  %s\n", n, what) }
	p(s.Lines, "lines")
	if s.Unreadable > 0 {
		p(s.Unreadable, "cannot be read:")
		for _, l := range s.FirstUnreadable {
			fmt.Fprintf(w, "%14s%v\n", "", l)
		}
		if n := s.Unreadable - len(s.FirstUnreadable); n > 0 {
			fmt.Fprintf(w, "%14s… and %d more\n", "", n)
		}
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
