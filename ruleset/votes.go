package ruleset

import (
	"fmt"
	"slices"
	"time"

	"github.com/hotboard/hotboard/hit"
)

// Votes makes a list a poll: people vote for options instead of viewing pages.
type Votes struct {
	// Options are the ids of the options. ["*"] accepts any id.
	Options []string `json:"options"`
	// Opens and Closes are the beginning and end of the poll, as RFC 3339 times.
	// Default: the poll is always open.
	Opens  time.Time `json:"opens,omitzero"`
	Closes time.Time `json:"closes,omitzero"`
	// RequireUser refuses votes without a user known to the site.
	RequireUser bool `json:"require_user,omitempty"`
}

// Kind returns the kind of hits that the list counts.
func (l *List) Kind() hit.Kind {
	if l.Votes != nil {
		return hit.Vote
	}
	return hit.View
}

// CheckVote judges a vote for an option at a time. An empty Reason means that no
// rule refuses it so far. The list must be a poll.
func (l *List) CheckVote(option string, at time.Time) Reason {
	v := l.Votes
	switch {
	case !l.anyOption && !slices.Contains(v.Options, option):
		return UnknownItem
	case !v.Opens.IsZero() && at.Before(v.Opens):
		return NotOpen
	case !v.Closes.IsZero() && !at.Before(v.Closes):
		return Closed
	}
	return ""
}

// compileVotes checks a poll, and copies it with its times in UTC. Settings that
// only make sense for views are errors: they would have no effect.
func (l *List) compileVotes(at *problemList) {
	written := *l.Votes
	l.Votes = &written
	v := l.Votes
	for _, f := range []struct {
		path string
		set  bool
	}{
		{"pages", len(l.Pages) > 0}, {"id", l.ID != ""}, {"statuses", len(l.Statuses) > 0},
		{"content_types", len(l.ContentTypes) > 0}, {"published_header", l.PublishedHeader != ""},
	} {
		if f.set {
			at.addf(f.path, "a poll has no pages: remove it")
		}
	}
	if len(v.Options) == 0 {
		at.addf("votes.options", `missing: name the options, or "*" to accept any`)
	}
	l.anyOption = slices.Equal(v.Options, []string{"*"})
	for i, option := range v.Options {
		path := fmt.Sprintf("votes.options[%d]", i)
		switch err := hit.ValidID(option); {
		case err != nil:
			at.addf(path, "%.80q: %v", option, err)
		case option == "*" && !l.anyOption:
			at.addf(path, `"*" accepts any option: use it alone`)
		case slices.Contains(v.Options[:i], option):
			at.addf(path, "duplicate %q", option)
		}
	}
	for _, f := range []struct {
		path string
		t    *time.Time
	}{{"votes.opens", &v.Opens}, {"votes.closes", &v.Closes}} {
		// The same instant must have one spelling in the document.
		if *f.t = f.t.UTC(); f.t.Year() < 1 || f.t.Year() > 9999 {
			at.addf(f.path, "the year %d is not between 1 and 9999", f.t.Year())
		}
	}
	if !v.Closes.IsZero() && !v.Closes.After(v.Opens) {
		at.addf("votes.closes", "the poll closes before it opens")
	}
}
