package ruleset

import (
	"fmt"
	"slices"
	"time"

	"github.com/hotboard/hotboard/hit"
)

// Votes makes a list one of options that are voted for, instead of pages that are
// viewed.
type Votes struct {
	// Options are the ids that can be voted for. ["*"] takes any.
	Options []string `json:"options"`
	// Opens and Closes are when the poll begins and ends, as RFC 3339 times.
	// Default: it always was and always will be open.
	Opens  time.Time `json:"opens,omitzero"`
	Closes time.Time `json:"closes,omitzero"`
	// RequireUser refuses votes of whom the site does not know.
	RequireUser bool `json:"require_user,omitempty"`

	any bool
}

// Kind returns the kind of hit that the list counts.
func (l *List) Kind() hit.Kind {
	if l.Votes != nil {
		return hit.Vote
	}
	return hit.View
}

// CheckVote judges a vote for an option at a time: an empty Reason means that
// nothing speaks against it so far. The list is one of votes.
func (l *List) CheckVote(option string, at time.Time) Reason {
	v := l.Votes
	switch {
	case !v.any && !slices.Contains(v.Options, option):
		return UnknownItem
	case !v.Opens.IsZero() && at.Before(v.Opens):
		return NotOpen
	case !v.Closes.IsZero() && !at.Before(v.Closes):
		return Closed
	}
	return ""
}

// provisionVotes checks the votes of a list. What only makes sense for views must
// be absent: it would have no effect.
func (l *List) provisionVotes(at *problemList) {
	v := l.Votes
	for _, f := range []struct {
		path string
		set  bool
	}{
		{"pages", len(l.Pages) > 0}, {"id", l.ID != ""}, {"statuses", len(l.Statuses) > 0},
		{"content_types", len(l.ContentTypes) > 0}, {"published_header", l.PublishedHeader != ""},
	} {
		if f.set {
			at.addf(f.path, "a list of votes has no pages: leave it out")
		}
	}
	if len(v.Options) == 0 {
		at.addf("votes.options", `name what can be voted for, or "*" for anything`)
	}
	v.any = slices.Equal(v.Options, []string{"*"})
	for i, option := range v.Options {
		path := fmt.Sprintf("votes.options[%d]", i)
		switch err := hit.ValidID(option); {
		case err != nil:
			at.addf(path, "%.80q: %v", option, err)
		case option == "*" && !v.any:
			at.addf(path, `"*" takes anything: name it alone`)
		case slices.Contains(v.Options[:i], option):
			at.addf(path, "%q is there twice", option)
		}
	}
	if !v.Closes.IsZero() && !v.Closes.After(v.Opens) {
		at.addf("votes.closes", "the poll closes before it opens")
	}
}
