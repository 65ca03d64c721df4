package ruleset

import (
	"testing"
	"time"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

func TestVotesDefaults(t *testing.T) {
	t.Parallel()
	l := compiled(t, &ListConfig{Name: "poll", Votes: &Votes{Options: []string{"yes", "no"}}}).Lists[0]
	want := ListConfig{
		Name: "poll", Votes: &Votes{Options: []string{"yes", "no"}},
		Zone:    "UTC",
		Weights: &Weights{PV: 1, UV: 2},
		Score:   Score{Model: Count},
		Boards:  []calendar.Period{calendar.Hour, calendar.Day, calendar.Week, calendar.Month, calendar.All},
		Keep:    map[calendar.Period]int{calendar.Hour: 48, calendar.Day: 35, calendar.Week: 10, calendar.Month: 13},
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
	opens, closes := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC), time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)
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
