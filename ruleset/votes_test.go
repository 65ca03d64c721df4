package ruleset

import (
	"testing"
	"time"

	"github.com/hotboard/hotboard/hit"
)

func TestVotesDefaults(t *testing.T) {
	t.Parallel()
	l := compiled(t, &ListConfig{Name: "poll", Votes: &Votes{Options: []string{"yes", "no"}}}).Lists[0]
	want := ListConfig{
		Name: "poll", Votes: &Votes{Options: []string{"yes", "no"}},
		Zone:    "UTC",
		Weights: &Weights{PV: 1, UV: 2},
		Score:   Score{Model: Count},
		Boards:  []Period{Hour, Day, Week, Month, All},
		Keep:    map[Period]int{Hour: 48, Day: 35, Week: 10, Month: 13},
	}
	if got, want := toJSON(t, l), toJSON(t, &want); got != want {
		t.Errorf("defaults:\n%s\nwant\n%s", got, want)
	}
	if l.Kind() != hit.Vote || new(List).Kind() != hit.View {
		t.Error("the kind of hit is wrong")
	}
	set := compiled(t, &ListConfig{Name: "poll", Votes: &Votes{Options: []string{"*"}}, Score: Score{Model: Gravity}, Dedup: Duration(time.Hour)}).Lists[0]
	if set.Score.Model != Gravity || set.Score.Base != 2 || set.Dedup != Duration(time.Hour) {
		t.Errorf("defaults replaced explicit settings: %s", toJSON(t, set))
	}
}

func TestCheckVote(t *testing.T) {
	t.Parallel()
	opens, closes := utc(t, "2026-11-20T08:00:00Z"), utc(t, "2026-11-27T08:00:00Z")
	for _, c := range []struct {
		votes  Votes
		option string
		at     time.Time
		want   Reason
	}{
		{Votes{Options: []string{"yes", "no"}}, "no", opens, ""},
		{Votes{Options: []string{"yes", "no"}}, "maybe", opens, UnknownItem},
		{Votes{Options: []string{"yes", "no"}}, "*", opens, UnknownItem},
		{Votes{Options: []string{"yes", "no"}}, "", opens, UnknownItem},
		{Votes{Options: []string{"*"}}, "maybe", opens, ""},
		{Votes{Options: []string{"*"}, Opens: opens}, "a", opens.Add(-time.Millisecond), NotOpen},
		{Votes{Options: []string{"*"}, Opens: opens}, "a", opens, ""},
		{Votes{Options: []string{"*"}, Opens: opens}, "a", closes.AddDate(10, 0, 0), ""},
		{Votes{Options: []string{"*"}, Closes: closes}, "a", time.UnixMilli(0), ""},
		{Votes{Options: []string{"*"}, Closes: closes}, "a", closes.Add(-time.Millisecond), ""},
		{Votes{Options: []string{"*"}, Closes: closes}, "a", closes, Closed},
		{Votes{Options: []string{"yes"}, Opens: opens, Closes: closes}, "no", closes, UnknownItem},
		{Votes{Options: []string{"yes"}, Opens: opens, Closes: closes}, "yes", closes.Add(time.Hour), Closed},
	} {
		l := compiled(t, &ListConfig{Name: "poll", Votes: &c.votes}).Lists[0]
		if got := l.CheckVote(c.option, c.at); got != c.want {
			t.Errorf("%+v: a vote for %q at %v: %q, want %q", c.votes, c.option, c.at, got, c.want)
		}
	}
}
