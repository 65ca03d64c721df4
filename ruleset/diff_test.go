package ruleset

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotboard/hotboard/ruleset/calendar"
)

// base has every list, limit and window that the cases of TestDiff change.
func base() Config {
	return Config{
		Lists: []*ListConfig{
			{Name: "articles", Pages: []string{"/articles/{id}"}, Boards: []calendar.Period{calendar.Day, calendar.Week}},
			{Name: "loud", Pages: []string{"/loud/{id}"}, Score: Score{Model: HalfLife}},
			{Name: "slow", Score: Score{Model: Accumulate}},
			{Name: "plain", Score: Score{Model: Count}},
			{Name: "poll", Votes: &Votes{Options: []string{"yes", "no"}}},
		},
		Limits: []*Limit{
			{Name: "person", By: []Dimension{ByUser}, Windows: []Window{{Max: 1, Per: "day"}, {Max: 10, Per: "minute"}}},
			{Name: "address", By: []Dimension{ByIP}, Windows: []Window{{Max: 5, Per: "minute", Calendar: true}}, Bonus: map[string]int64{"letter": 2}},
		},
	}
}

const fromThen = " from now on; counts stay"

// diffCases has at least one change of every setting.
var diffCases = []struct {
	change func(c *Config)
	want   string // path: was → is | effect, one a line
}{
	{func(c *Config) {}, ""},
	{func(c *Config) { c.Lists = append(c.Lists, &ListConfig{Name: "news"}) }, "lists.news added | the list counts from now on"},
	{func(c *Config) { c.Lists = c.Lists[1:] }, "lists.articles removed | the counts stay, and are not shown"},
	{func(c *Config) { c.Lists[0].Name = "texts" }, "lists.articles removed | the counts stay, and are not shown\nlists.texts added | the list counts from now on"},
	{func(c *Config) { c.Lists = slices.Insert(c.Lists[1:], 1, c.Lists[0]) }, "lists: articles, loud, slow, plain, poll → loud, articles, slow, plain, poll | a question that names no list gets the first one; counts stay"},
	{func(c *Config) { c.Lists[0].Pages = append(c.Lists[0].Pages, "/a/{id}") }, "lists.articles.pages: /articles/{id} → /articles/{id}, /a/{id} | other requests count" + fromThen},
	{func(c *Config) { c.Lists[0].ID = "{http.request.uri.query.id}" }, "lists.articles.id: none → {http.request.uri.query.id} | views count for other items" + fromThen},
	{func(c *Config) { c.Lists[0].Statuses = []int{200, 404} }, "lists.articles.statuses: 200, 304 → 200, 404 | other responses count" + fromThen},
	{func(c *Config) { c.Lists[0].ContentTypes = []string{"*"} }, "lists.articles.content_types: text/html, application/xhtml+xml → * | other responses count" + fromThen},
	{func(c *Config) { c.Lists[0].PublishedHeader = "X-P" }, "lists.articles.published_header: Hotboard-Published → X-P | responses name publish times in another header" + fromThen},
	{func(c *Config) { c.Lists[2].Votes = &Votes{Options: []string{"*"}} }, "lists.slow.votes added | only votes count from now on, on top of the counts that are already there\nlists.slow.dedup: 10m → 0s | another time decides which hits are duplicates" + fromThen},
	{func(c *Config) { c.Lists[4].Votes = nil }, "lists.poll.votes removed | only views count from now on, on top of the counts that are already there\nlists.poll.dedup: 0s → 10m | another time decides which hits are duplicates" + fromThen + "\nlists.poll.score.model: count → gravity | " + atOnce},
	{func(c *Config) { c.Lists[4].Votes = &Votes{Options: []string{"no"}} }, "lists.poll.votes.options: yes, no → no | votes for other options count" + fromThen},
	{func(c *Config) { c.Lists[4].Votes.Opens = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC) }, "lists.poll.votes.opens: none → 2026-11-20T09:00:00Z | votes count from another time on; counts stay"},
	{func(c *Config) { c.Lists[4].Votes.Closes = time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC) }, "lists.poll.votes.closes: none → 2026-11-27T09:00:00Z | votes count until another time; counts stay"},
	{func(c *Config) { c.Lists[4].Votes.RequireUser = true }, "lists.poll.votes.require_user: false → true | votes without a user are refused" + fromThen},
	{func(c *Config) { c.Lists[0].Dedup = Duration(time.Hour) }, "lists.articles.dedup: 10m → 1h | another time decides which hits are duplicates" + fromThen},
	{func(c *Config) { c.Lists[0].Zone = "Europe/Berlin" }, "lists.articles.zone: UTC → Europe/Berlin | day, week and month boards begin anew, and so do windows of limits of these lengths; all-time counts stay"},
	{func(c *Config) { c.Lists[0].Weights = &Weights{PV: 3, UV: 2} }, "lists.articles.weights.pv: 1 → 3 | " + atOnce},
	{func(c *Config) { c.Lists[1].Weights = &Weights{PV: 1, UV: 0.5} }, "lists.loud.weights.uv: 2 → 0.5 | " + rebuilt},
	{func(c *Config) { c.Lists[3].Weights = &Weights{PV: 1, UV: 0.5} }, "lists.plain.weights.uv: 2 → 0.5 | nothing changes: the model count ranks by the number of hits"},
	{func(c *Config) { c.Lists[0].Score = Score{Model: HalfLife, HalfLife: Duration(time.Hour)} }, "lists.articles.score.model: gravity → halflife | " + rebuilt},
	{func(c *Config) { c.Lists[1].Score = Score{Model: Count} }, "lists.loud.score.model: halflife → count | " + atOnce},
	{func(c *Config) { c.Lists[0].Score.Base = 5 }, "lists.articles.score.base: 2 → 5 | " + atOnce},
	{func(c *Config) { c.Lists[2].Score.Base = 5 }, "lists.slow.score.base: 2 → 5 | " + rebuilt},
	{func(c *Config) { c.Lists[2].Score.Gamma = 2 }, "lists.slow.score.gamma: 1.5 → 2 | " + rebuilt},
	{func(c *Config) { c.Lists[1].Score.HalfLife = Duration(12 * time.Hour) }, "lists.loud.score.half_life: 1d → 12h | " + rebuilt},
	{func(c *Config) { c.Lists[1].Score.MinViews = 3 }, "lists.loud.score.min_views: 0 → 3 | " + atOnce},
	{func(c *Config) { c.Lists[0].Score.Damping = DampingLog }, "lists.articles.score.damping: none → log | " + atOnce},
	{func(c *Config) { c.Lists[0].Boards = []calendar.Period{calendar.Hour, calendar.Day, calendar.All} }, "lists.articles.boards: day, week → hour, day, all | hour boards begin empty; week boards are deleted; all-time counts, which were kept, are shown"},
	{func(c *Config) {
		c.Lists[1].Boards = []calendar.Period{calendar.Hour, calendar.Day, calendar.Week, calendar.Month}
	}, "lists.loud.boards: hour, day, week, month, all → hour, day, week, month | all-time counts stay, and are not shown"},
	{func(c *Config) { c.Lists[0].Keep = map[calendar.Period]int{calendar.Day: 7, calendar.Week: 52} }, "lists.articles.keep.day: 35 → 7 | older day boards are deleted\nlists.articles.keep.week: 10 → 52 | more week boards are kept from now on; deleted ones do not come back"},

	{func(c *Config) {
		c.Limits = append(c.Limits, &Limit{Name: "x", By: []Dimension{ByItem}, Windows: []Window{{Max: 1, Per: "day"}}})
	}, "limits.x added | the limit counts from now on"},
	{func(c *Config) { c.Limits = c.Limits[:1] }, "limits.address removed | the limit refuses nothing" + fromThen},
	{func(c *Config) { slices.Reverse(c.Limits) }, "limits: person, address → address, person | a hit that several limits refuse can get its reason from another one" + fromThen},
	{func(c *Config) { c.Limits[0].By = []Dimension{ByIP, ByUser} }, "limits.person.by: user → ip, user | the limit begins to count anew"},
	{func(c *Config) { c.Limits[1].IPv4Prefix = 24 }, "limits.address.ipv4_prefix: 32 → 24 | the limit begins to count anew"},
	{func(c *Config) { c.Limits[1].IPv6Prefix = 48 }, "limits.address.ipv6_prefix: 64 → 48 | the limit begins to count anew"},
	{func(c *Config) { c.Limits[0].Windows[0].Max = 2 }, "limits.person.windows.day.max: 1 → 2 | the new maximum applies at once; counts stay"},
	{func(c *Config) { c.Limits[0].Windows[1].Max = 9 }, "limits.person.windows.minute.max: 10 → 9 | the rate begins to count anew\nlimits.person.windows.minute.burst: 10 → 9 | the rate begins to count anew"},
	{func(c *Config) { c.Limits[0].Windows[1].Burst = 3 }, "limits.person.windows.minute.burst: 10 → 3 | the rate begins to count anew"},
	{func(c *Config) { c.Limits[0].Windows[0].Per = "week" }, "limits.person.windows.day removed | the window refuses nothing" + fromThen + "\nlimits.person.windows.week added | the window counts from now on"},
	{func(c *Config) { c.Limits[1].Windows[0].Calendar = false }, "limits.address.windows.calendar-minute removed | the window refuses nothing" + fromThen + "\nlimits.address.windows.minute added | the window counts from now on"},
	{func(c *Config) { slices.Reverse(c.Limits[0].Windows) }, "limits.person.windows: day, minute → minute, day | nothing changes: all windows apply, in any order"},
	{func(c *Config) { c.Limits[0].When = &When{Lists: []string{"poll"}} }, "limits.person.when.lists: none → poll | the limit applies to other lists" + fromThen},
	{func(c *Config) { c.Limits[0].When = &When{Channels: []string{"letter"}} }, "limits.person.when.channels: none → letter | the limit applies to other channels" + fromThen},
	{func(c *Config) { c.Limits[0].When = &When{Devices: []string{"tv", "other"}} }, "limits.person.when.devices: none → tv, other | the limit applies to other devices" + fromThen},
	{func(c *Config) { c.Limits[1].Bonus = map[string]int64{"letter": 3, "app": 1} }, "limits.address.bonus.app: 0 → 1 | the channel's new maximum applies at once; counts stay\nlimits.address.bonus.letter: 2 → 3 | the channel's new maximum applies at once; counts stay"},
	{func(c *Config) { c.Limits[0].Shadow = true }, "limits.person.shadow: false → true | the limit refuses nothing" + fromThen},

	{func(c *Config) { c.Bots = &Bots{File: "bots.json"} }, ""},
	{func(c *Config) { c.Bots = &Bots{Allow: &Clients{UserAgents: []string{"Friend"}}} }, "bots.allow.user_agents: none → Friend | other clients are bots" + fromThen},
	{func(c *Config) { c.Bots = &Bots{Allow: &Clients{CIDRs: []string{"192.0.2.1/24"}}} }, "bots.allow.cidrs: none → 192.0.2.0/24 | other clients are bots" + fromThen},
	{func(c *Config) { c.Bots = &Bots{Deny: &Clients{UserAgents: []string{"Spam"}}} }, "bots.deny.user_agents: none → Spam | other clients are bots" + fromThen},
	{func(c *Config) { c.Bots = &Bots{Deny: &Clients{CIDRs: []string{"::1"}}} }, "bots.deny.cidrs: none → ::1/128 | other clients are bots" + fromThen},
	{func(c *Config) {
		c.Bots = &Bots{Count: []BotCount{{List: "slow", Classes: []string{"scanner", "other"}}, {List: "plain"}}}
	}, "bots.count: none → slow scanner other, plain | views of bots count on other lists" + fromThen},
}

func TestDiff(t *testing.T) {
	t.Parallel()
	for _, tc := range diffCases {
		c := base()
		tc.change(&c)
		var got []string
		for _, d := range Diff(MustCompile(base()), MustCompile(c)) {
			got = append(got, d.String()+" | "+d.Effect)
		}
		if text := strings.Join(got, "\n"); text != tc.want {
			t.Errorf("got\n%s\nwant\n%s", text, tc.want)
		}
	}
}

// Every setting of a configuration has a case in TestDiff, so that a new one cannot
// be left out of Diff.
func TestDiffHasEverySetting(t *testing.T) {
	t.Parallel()
	var covered []string
	named := regexp.MustCompile(`^(limits\.\*\.windows|lists|limits)\.[^.]+`)
	for _, tc := range diffCases {
		for line := range strings.Lines(tc.want) {
			path, _, _ := strings.Cut(strings.TrimSpace(strings.Split(line, " | ")[0])+" ", " ")
			path = strings.TrimSuffix(path, ":")
			for range 2 { // a limit, and then its window
				path = named.ReplaceAllString(path, "$1.*")
			}
			covered = append(covered, path)
		}
	}
	for _, path := range settingsOf(reflect.TypeFor[Config](), "") {
		switch path {
		case "bots.file": // not in the document
		case "lists.*.name", "limits.*.name", "limits.*.windows.*.per", "limits.*.windows.*.calendar": // parts of names
		default:
			if !slices.ContainsFunc(covered, func(c string) bool { return c == path || strings.HasPrefix(c, path+".") }) {
				t.Errorf("no case changes %s", path)
			}
		}
	}
}

// settingsOf returns the paths of the settings of a type.
func settingsOf(typ reflect.Type, path string) (paths []string) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch elem := typ; {
	case typ.Kind() == reflect.Slice && path != "bots.count":
		for elem = typ.Elem(); elem.Kind() == reflect.Pointer; {
			elem = elem.Elem()
		}
		if elem.Kind() == reflect.Struct {
			return settingsOf(elem, path+".*")
		}
	case typ.Kind() == reflect.Struct && typ != reflect.TypeFor[time.Time]():
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			paths = append(paths, settingsOf(typ.Field(i).Type, strings.TrimPrefix(path+"."+name, "."))...)
		}
		return paths
	}
	return []string{path}
}

// Rules differ exactly if their documents do.
func TestDiffFindsEveryDifference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		was, is := MustCompile(drawConfig(rt)), MustCompile(drawConfig(rt))
		d := Diff(was, is)
		if (len(d) == 0) != (was.ID() == is.ID()) {
			rt.Fatalf("%v between\n%s\n%s", d, was.Document(), is.Document())
		}
		for _, c := range d {
			if c.Path == "" || c.Is == "" || c.Effect == "" || c.Was == c.Is {
				rt.Fatalf("%+v", c)
			}
		}
	})
}

func TestChangesAsText(t *testing.T) {
	t.Parallel()
	none := Diff(nil, nil)
	if none.String() != "" {
		t.Errorf("%q", none)
	}
	r := MustCompile(base())
	if got, want := Diff(nil, r).String(), "lists.articles added; lists.loud added; lists.slow added; and 4 more"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := Diff(r, nil)[:1].String(), "lists.articles removed"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	long := Change{Path: "p", Was: strings.Repeat("ü", 40), Is: strings.Repeat("ü", 41)}
	if got, want := long.String(), "p: "+strings.Repeat("ü", 40)+" → "+strings.Repeat("ü", 40)+"…"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
