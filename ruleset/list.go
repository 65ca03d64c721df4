package ruleset

import (
	"fmt"
	"maps"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // zones must also load in containers without a zone database
	"unicode/utf8"

	"github.com/hotboard/hotboard/ruleset/calendar"
)

// Defaults of a list.
const (
	DefaultDedup           = Duration(10 * time.Minute)
	DefaultHalfLife        = Duration(24 * time.Hour)
	DefaultPublishedHeader = "Hotboard-Published"

	defaultBase, defaultGamma = 2, 1.5
)

// Limits of a list.
const (
	maxDedup    = Duration(24 * time.Hour)
	minHalfLife = Duration(time.Minute)
	maxHalfLife = Duration(3650 * 24 * time.Hour)
	minBase     = 0.01
	maxBase     = 24 * 365
	minGamma    = 0.01
	maxGamma    = 10
	// This bound, with those of base and gamma, keeps every sum of hits within a
	// float64.
	maxWeight = 1e9
	maxKeep   = 10000
)

var (
	defaultStatuses     = []int{http.StatusOK, http.StatusNotModified}
	defaultContentTypes = []string{"text/html", "application/xhtml+xml"}
	defaultKeep         = map[calendar.Period]int{calendar.Hour: 48, calendar.Day: 35, calendar.Week: 10, calendar.Month: 13}

	listName   = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

// compileList returns a list with all defaults filled in.
func compileList(c *ListConfig, at *problemList) *List {
	l := &List{ListConfig: *c}
	if !listName.MatchString(l.Name) {
		at.addf("name", "invalid name %q: use 1 to 64 of a-z, 0-9, - and _", l.Name)
	}
	if l.Votes != nil {
		l.compileVotes(at)
		if l.Score.Model == "" {
			l.Score.Model = Count
		}
	} else {
		l.compilePages(at)
		l.compileResponse(at)
	}
	switch {
	case l.Dedup == 0 && l.Votes != nil:
	case l.Dedup == 0:
		l.Dedup = DefaultDedup
	case l.Dedup < Duration(time.Millisecond) || l.Dedup > maxDedup:
		at.addf("dedup", "%v is not between 1ms and 24h", l.Dedup)
	}
	l.compileZone(at)
	if l.Weights == nil {
		l.Weights = new(Weights)
		l.Weights.SetDefaults()
	}
	l.Weights.validate(at)
	l.Score.compile(at)
	l.compileBoards(at)
	return l
}

func (l *List) compilePages(at *problemList) {
	shapes := make(map[string]int)
	for i, s := range l.Pages {
		path := fmt.Sprintf("pages[%d]", i)
		p, err := compilePattern(s, l.ID == "")
		if err != nil {
			at.addf(path, "pattern %q: %v", s, err)
			continue
		}
		if first, ok := shapes[p.shape]; ok {
			at.addf(path, "pattern %q matches the same paths as %q before it", s, l.Pages[first])
			continue
		}
		shapes[p.shape] = i
		l.patterns = append(l.patterns, p)
	}
	open, end := strings.Index(l.ID, "{"), strings.LastIndex(l.ID, "}")
	if l.ID != "" && (open < 0 || end < open+2 || !utf8.ValidString(l.ID)) {
		at.addf("id", "%q is not a placeholder such as {http.request.uri.query.id}", l.ID)
	}
}

func (l *List) compileResponse(at *problemList) {
	if len(l.Statuses) == 0 {
		l.Statuses = defaultStatuses
	}
	for i, s := range l.Statuses {
		switch path := fmt.Sprintf("statuses[%d]", i); {
		case s < 100 || s > 599:
			at.addf(path, "%d is not a status: 100 to 599", s)
		case slices.Contains(l.Statuses[:i], s):
			at.addf(path, "duplicate %d", s)
		}
	}

	if len(l.ContentTypes) == 0 {
		l.ContentTypes = defaultContentTypes
	}
	l.ContentTypes = slices.Clone(l.ContentTypes)
	for i, t := range l.ContentTypes {
		path := fmt.Sprintf("content_types[%d]", i)
		if t == "*" {
			l.anyType = true
			continue
		}
		parsed, params, err := mime.ParseMediaType(t)
		switch {
		case err != nil || !strings.Contains(parsed, "/") || strings.Contains(parsed, "*"):
			at.addf(path, `%q is not a media type such as text/html, or "*" for all`, t)
		case len(params) > 0:
			at.addf(path, "%q: leave out the parameters, %q counts with any", t, parsed)
		case slices.Contains(l.ContentTypes[:i], parsed):
			at.addf(path, "duplicate %q", t)
		default:
			l.ContentTypes[i] = parsed // in lower case
		}
	}

	if l.PublishedHeader == "" {
		l.PublishedHeader = DefaultPublishedHeader
	}
	if !headerName.MatchString(l.PublishedHeader) {
		at.addf("published_header", "%q is not the name of a header", l.PublishedHeader)
	}
	l.PublishedHeader = http.CanonicalHeaderKey(l.PublishedHeader)
}

func (l *List) compileZone(at *problemList) {
	if l.Zone == "" {
		l.Zone = "UTC"
	}
	zone, err := time.LoadLocation(l.Zone)
	if err != nil || l.Zone == "Local" {
		// Local depends on the machine, and edges and aggregators must agree.
		at.addf("zone", "%q is not an IANA time zone such as UTC or Europe/Berlin", l.Zone)
		zone = time.UTC
	}
	l.periods.Zone = zone
}

func (w *Weights) validate(at *problemList) {
	for _, f := range []struct {
		path  string
		value float64
	}{{"weights.pv", w.PV}, {"weights.uv", w.UV}} {
		if !(f.value >= 0 && f.value <= maxWeight) { // also refuses NaN
			at.addf(f.path, "%v is not a number from 0 to %v", f.value, float64(maxWeight))
		}
	}
	if w.PV == 0 && w.UV == 0 {
		at.addf("weights", "pv and uv are both 0: every item would have the score 0")
	}
}

// compile fills in and checks the settings of the model. Settings of another
// model are errors: they would have no effect.
func (s *Score) compile(at *problemList) {
	if s.Model == "" {
		s.Model = Gravity
	}
	aged := s.Model == Gravity || s.Model == Accumulate
	switch s.Model {
	case Gravity, Accumulate, HalfLife, Count:
	default:
		at.addf("score.model", "%q is not one of gravity, accumulate, halflife and count", s.Model)
		return
	}

	rangeOf := func(path string, v *float64, deflt, min, max float64) {
		switch {
		case !aged && *v != 0:
			at.addf(path, "model %s does not use it: remove it", s.Model)
		case aged && *v == 0:
			*v = deflt
		case aged && !(*v >= min && *v <= max): // also refuses NaN
			at.addf(path, "%v is not between %v and %v", *v, min, max)
		}
	}
	rangeOf("score.base", &s.Base, defaultBase, minBase, maxBase)
	rangeOf("score.gamma", &s.Gamma, defaultGamma, minGamma, maxGamma)

	switch {
	case s.Model != HalfLife && s.HalfLife != 0:
		at.addf("score.half_life", "model %s does not use it: remove it", s.Model)
	case s.Model == HalfLife && s.HalfLife == 0:
		s.HalfLife = DefaultHalfLife
	case s.Model == HalfLife && (s.HalfLife < minHalfLife || s.HalfLife > maxHalfLife):
		at.addf("score.half_life", "%v is not between %v and %v", s.HalfLife, minHalfLife, maxHalfLife)
	}

	if s.MinViews < 0 {
		at.addf("score.min_views", "%d is less than 0", s.MinViews)
	}
	switch {
	case s.Damping != "" && s.Damping != DampingLog:
		at.addf("score.damping", "%q is not %q", s.Damping, DampingLog)
	case s.Damping != "" && s.Model != Gravity:
		at.addf("score.damping", "model %s does not use it: remove it", s.Model)
	}
}

func (l *List) compileBoards(at *problemList) {
	if l.Boards != nil && len(l.Boards) == 0 {
		at.addf("boards", "empty: name at least one board, or remove it to keep hour, day, week, month and all")
	}
	if len(l.Boards) == 0 {
		l.Boards = calendar.Periods
	}
	l.Boards = slices.Clone(l.Boards)
	valid := true
	for i, p := range l.Boards {
		switch path := fmt.Sprintf("boards[%d]", i); {
		case !p.Valid():
			at.addf(path, "%q is not one of hour, day, week, month and all", p)
			valid = false
		case slices.Contains(l.Boards[:i], p):
			at.addf(path, "duplicate %s", p)
		}
	}
	if valid {
		slices.SortFunc(l.Boards, func(a, b calendar.Period) int {
			return slices.Index(calendar.Periods, a) - slices.Index(calendar.Periods, b)
		})
	}

	keep := make(map[calendar.Period]int)
	for _, p := range slices.Sorted(maps.Keys(l.Keep)) {
		n := l.Keep[p]
		switch path := "keep." + string(p); {
		case p == calendar.All:
			at.addf(path, "the all-time board is always kept: remove it")
		case !p.Valid():
			at.addf(path, "%q is not one of hour, day, week and month", p)
		case valid && !slices.Contains(l.Boards, p):
			at.addf(path, "boards does not include %s", p)
		case n < 1 || n > maxKeep:
			at.addf(path, "%d is not between 1 and %d", n, maxKeep)
		}
		keep[p] = n
	}
	for _, p := range l.Boards {
		if n, ok := defaultKeep[p]; ok {
			if _, set := keep[p]; !set {
				keep[p] = n
			}
		}
	}
	l.Keep = keep
}
