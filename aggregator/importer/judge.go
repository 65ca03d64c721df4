package importer

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/accesslog"
	"github.com/hotboard/hotboard/ruleset/bots"
)

// botCache is the number of User-Agents in the cache of verdicts.
const botCache = 10_000

// judge decides which requests of a log are views, as an edge would have, and
// fills in the summary.
type judge struct {
	rules   *ruleset.Rules
	routes  []route
	index   map[route]int
	pages   map[*ruleset.List]bool // the lists of pages of all routes
	bots    *bots.Classifier
	content [sha256.Size]byte
	day     string // of secret
	secret  []byte
	targets []ruleset.Target
	hits    []routedHit
	summary Summary
}

// route leads views of one list's pages to the list that counts them: the same
// list or, for bots, a list of bots. Each route has its own edge id, because one
// request can match pages of several lists, but is at most one view of a route.
type route struct{ pages, counts *ruleset.List }

// name returns the name from which edgeID derives the route's edge id.
func (r route) name() string {
	if r.pages == r.counts {
		return r.counts.Name
	}
	return r.counts.Name + "\x00" + r.pages.Name // names of lists never contain a zero byte
}

// routedHit is a view on one of the judge's routes, by its index.
type routedHit struct {
	hit.Hit
	route int
}

func newJudge(o Options, content [sha256.Size]byte) (*judge, error) {
	rules, only := o.Rules, o.List
	j := &judge{rules: rules, index: map[route]int{}, pages: map[*ruleset.List]bool{}, bots: bots.New(rules.Bots, botCache), content: content,
		summary: Summary{Reasons: map[ruleset.Reason]int{}, Views: map[string]int{}}}
	j.bots.SetPatterns(o.Patterns)
	if only != "" && rules.List(only) == nil {
		return nil, fmt.Errorf("the rules have no list %q", only)
	}
	var pages []*ruleset.List
	for _, l := range rules.Lists {
		named := only == l.Name
		switch {
		case l.Votes != nil && named:
			return nil, fmt.Errorf("list %s counts votes, and access logs contain none", l.Name)
		case l.Votes != nil && only == "":
			j.summary.SkippedVotes = append(j.summary.SkippedVotes, l.Name)
		case l.ID != "" && (only == "" || named):
			j.summary.Skipped = append(j.summary.Skipped, l.Name)
		case l.ID == "" && len(l.Pages) > 0:
			pages = append(pages, l)
		}
	}
	add := func(r route) {
		if only == "" || only == r.counts.Name {
			j.index[r] = len(j.routes)
			j.routes = append(j.routes, r)
			j.pages[r.pages] = true
			j.summary.Views[r.counts.Name] = 0
		}
	}
	for _, l := range pages {
		add(route{l, l})
	}
	for _, l := range rules.Lists {
		if rules.CountsBots(l.Name) {
			for _, p := range pages {
				add(route{p, l})
			}
		}
	}
	if len(j.routes) == 0 {
		return nil, fmt.Errorf("no list in the rules can be imported: a list needs page patterns, and only an edge can count a list that names its items by a placeholder (id)")
	}
	return j, nil
}

// views returns the views of a request on the given line. The slice is valid
// until the next call.
func (j *judge) views(line int, e *accesslog.Entry) []routedHit {
	j.summary.Requests++
	j.hits = j.hits[:0]
	j.targets = j.rules.Match(j.targets[:0], e.Path)
	j.targets = slices.DeleteFunc(j.targets, func(t ruleset.Target) bool { return !j.pages[t.List] })
	if len(j.targets) == 0 {
		j.summary.NoPage++
		return nil
	}
	judgment := j.rules.Judge(ruleset.Request{Kind: ruleset.LoggedRequest, Method: e.Method, Header: e.Header, BotClass: j.botClass(e)})
	reader := false
	for i := range j.targets {
		t := &j.targets[i]
		outcome := judgment.Outcome(t, e.Status, e.ResponseHeader)
		if judgment.Bots != nil {
			j.take(e, t, judgment.Bots, outcome)
		}
		reason := judgment.Reason(outcome)
		j.take(e, t, t.List, reason)
		reader = reader || reason == ""
	}
	if reader && !e.KnowsUserAgent {
		j.summary.unchecked(line)
	}
	return j.hits
}

// botClass returns the class of the bot that sent a request. Without a User-Agent
// in the log, only the address can reveal a bot.
func (j *judge) botClass(e *accesslog.Entry) string {
	class := j.bots.Classify(e.UserAgent, e.IP).Class
	if !e.KnowsUserAgent && class != "denied" {
		return ""
	}
	return class
}

// take adds the view of a target to the hits, or its reason to the summary.
func (j *judge) take(e *accesslog.Entry, t *ruleset.Target, counts *ruleset.List, reason ruleset.Reason) {
	i, ok := j.index[route{t.List, counts}]
	if !ok {
		return // the import is for another list only
	}
	if reason != "" {
		j.summary.Reasons[reason]++
		return
	}
	h := hit.Hit{Kind: hit.View, List: counts.Name, Item: t.Item, Time: e.Time.UnixMilli(),
		Visitor: ruleset.Visitor(j.secretOf(e.Time), e.IP, e.UserAgent)}
	if p := t.List.Published(e.ResponseHeader); !p.IsZero() {
		h.Published, h.PublishedFrom = p.UnixMilli(), hit.FromOrigin
	}
	if h.Valid() != nil { // a time in 1970 or earlier
		j.summary.Reasons[ruleset.Invalid]++
		return
	}
	j.summary.Views[counts.Name]++
	j.hits = append(j.hits, routedHit{h, i})
}

// secretOf returns the secret of a UTC day. It is derived from the content: every
// import of a log yields the same visitors, and nobody can guess the secret
// without the log.
func (j *judge) secretOf(t time.Time) []byte {
	if day := t.UTC().Format(time.DateOnly); day != j.day {
		m := hmac.New(sha256.New, j.content[:])
		m.Write([]byte("hotboard import " + day))
		j.day, j.secret = day, m.Sum(nil)
	}
	return j.secret
}
