// Package reading holds the requests and answers of the reading API that edges and
// aggregators share, in one canonical form.
package reading

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// Hot is the name of the board ranked by the list's model. The other boards have
// the names of their periods.
const Hot = "hot"

// Defaults and limits of a request.
const (
	DefaultLimit = 10
	MaxLimit     = 1000     // entries of a board, and of all boards of one call
	MaxOffset    = 10000    // entries to skip at the top
	MaxItems     = 200      // in one call
	MaxBoards    = 20       // in one call
	MaxURLBytes  = 4 << 10  // path and query
	MaxBodyBytes = 64 << 10 // of a POST
)

// Kind is the kind of thing that a request asks for.
type Kind uint8

// The kinds of requests.
const (
	BoardOf Kind = iota + 1
	ItemOf
	StatsOf
	ItemsOf // several, named in a body
)

// Request is one request in canonical form: two spellings of it are equal, so that
// they share an answer. It is comparable.
type Request struct {
	Kind Kind   `json:"kind"`
	List string `json:"list"`
	// ID is an item's id, or several ids with zero bytes between them.
	ID      string `json:"id,omitempty"`
	Period  string `json:"period,omitempty"` // Hot or a calendar.Period
	Limit   int    `json:"limit,omitempty"`  // 1 to MaxLimit
	Offset  int    `json:"offset,omitempty"` // 0 to MaxOffset
	Explain bool   `json:"explain,omitempty"`
	// At is in milliseconds since the Unix epoch; NoTime when none is given.
	At int64 `json:"at,omitempty"`
}

// NoTime is the At of a request without a time. It is before 1970, which no request
// may name.
const NoTime = -1

// Question is the content of one call: one request, or several boards.
type Question struct {
	Requests []Request `json:"requests"`
	// Several makes the answer a list of boards, even if it has one.
	Several bool `json:"several,omitempty"`
}

// Key returns equal texts for equal questions only.
func (q *Question) Key() string {
	var b []byte
	for i := range q.Requests {
		r := &q.Requests[i]
		b = append(b, byte('0'+r.Kind))
		for _, s := range []string{r.List, r.ID, r.Period} {
			b = strconv.AppendQuote(b, s)
		}
		for _, n := range []int64{int64(r.Limit), int64(r.Offset), r.At} {
			b = append(strconv.AppendInt(b, n, 10), ' ')
		}
		b = strconv.AppendBool(b, r.Explain)
	}
	return string(strconv.AppendBool(b, q.Several))
}

// Serves reports whether an escaped URL path belongs to the reading API.
func Serves(path string) bool {
	_, _, ok := route(path)
	return ok
}

// Methods returns the methods of a path, in the form of the header Allow.
func Methods(path string) string {
	if to, _, _ := route(path); to == toItems || to == toBoards {
		return http.MethodPost
	}
	return http.MethodGet + ", " + http.MethodHead
}

// endpoint is what a path asks for.
type endpoint uint8

const (
	toBoard   endpoint = iota + 1
	toBoardAt          // a board whose list and period are in the path
	toItem
	toStats
	toItems  // several, named in a body
	toBoards // likewise
)

// route splits an escaped URL path. An item's id is everything after its list,
// slashes included.
func route(path string) (to endpoint, rest string, ok bool) {
	switch path {
	case "/hot", "/api/hot":
		return toBoard, "", true
	case "/api/items":
		return toItems, "", true
	case "/api/boards":
		return toBoards, "", true
	}
	if rest, ok := strings.CutPrefix(path, "/api/boards/"); ok {
		return toBoardAt, rest, true
	}
	if rest, ok := strings.CutPrefix(path, "/api/items/"); ok {
		return toItem, rest, true
	}
	if rest, ok := strings.CutPrefix(path, "/api/stats/"); ok {
		return toStats, rest, true
	}
	return 0, "", false
}

// Parse reads a question from an escaped path, a raw query, and the body of a POST.
// Requests that name no list get defaultList.
func Parse(path, rawQuery string, body []byte, defaultList string) (*Question, *Error) {
	to, rest, ok := route(path)
	if !ok {
		return nil, &Error{Status: http.StatusNotFound, Code: "not_found", Message: fmt.Sprintf("Not found: %.200q.", path)}
	}
	if len(path)+len(rawQuery) > MaxURLBytes {
		return nil, &Error{Status: http.StatusRequestURITooLong, Code: "query_too_long", Message: fmt.Sprintf("The path and the query have more than %d bytes.", MaxURLBytes)}
	}
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return nil, BadRequest("bad_query", "Invalid query: %v.", err)
	}
	var bad *Error
	q := &Question{Requests: make([]Request, 1)}
	switch to {
	case toItems, toBoards:
		if bad = only(values); bad != nil {
			return nil, bad
		}
		if to == toBoards {
			q.Several = true
			q.Requests, bad = parseBoards(body, defaultList)
		} else {
			q.Requests[0], bad = parseItems(body, defaultList)
		}
	default:
		q.Requests[0], bad = parseOne(to, rest, values, defaultList)
	}
	if bad != nil {
		return nil, bad
	}
	return q, nil
}

// parseOne reads a request from its path and query alone.
func parseOne(to endpoint, rest string, values url.Values, defaultList string) (Request, *Error) {
	r := Request{Kind: StatsOf, At: NoTime}
	var err error
	switch to {
	case toBoard:
		return r.parseBoard(values, defaultList)
	case toBoardAt:
		if values.Has("list") || values.Has("period") {
			return Request{}, BadRequest("repeated_parameter", "The path already names the list and the period.")
		}
		list, period, _ := strings.Cut(rest, "/")
		if list, err = url.PathUnescape(list); err != nil || list == "" {
			return Request{}, BadRequest("bad_list", "Invalid list name %.80q.", rest)
		}
		if period == "" {
			return Request{}, BadRequest("bad_period", "The path must end in hot, hour, day, week, month or all.")
		}
		values["list"], values["period"] = []string{list}, []string{period}
		return r.parseBoard(values, defaultList)
	case toItem:
		r.Kind = ItemOf
		list, id, _ := strings.Cut(rest, "/")
		if r.ID, err = url.PathUnescape(id); err == nil {
			err = hit.ValidID(r.ID)
		}
		if err != nil {
			return Request{}, BadRequest("bad_item", "Invalid item id: %v.", err)
		}
		rest = list
	}
	if r.List, err = url.PathUnescape(rest); err != nil {
		return Request{}, BadRequest("bad_list", "Invalid list name: %v.", err)
	}
	return r, only(values)
}

func (r Request) parseBoard(values url.Values, defaultList string) (Request, *Error) {
	if err := only(values, "list", "period", "limit", "offset", "at", "explain"); err != nil {
		return Request{}, err
	}
	r.Kind, r.List, r.Period, r.Limit = BoardOf, defaultList, Hot, DefaultLimit
	if s := values.Get("list"); s != "" {
		r.List = s
	}
	if s := values.Get("period"); s != "" {
		if s != Hot && !calendar.Period(s).Valid() {
			return Request{}, BadRequest("bad_period", "Unknown period %.40q; use hot, hour, day, week, month or all.", s)
		}
		r.Period = s
	}
	var err *Error
	if r.Limit, err = integer(values, "limit", r.Limit, 1, MaxLimit); err != nil {
		return Request{}, err
	}
	if r.Offset, err = integer(values, "offset", 0, 0, MaxOffset); err != nil {
		return Request{}, err
	}
	if s := values.Get("at"); s != "" {
		t, err := time.Parse(time.RFC3339, s)
		if err != nil || t.UTC().Year() < 1970 || t.UTC().Year() > 9999 {
			return Request{}, BadRequest("bad_at", "The parameter at must be a time from 1970 on such as 2026-11-20T12:00:00Z, with a + written as %%2B, not %.60q.", s)
		}
		r.At = t.UnixMilli()
	}
	switch s := values.Get("explain"); s {
	case "", "0", "false":
	case "1", "true":
		r.Explain = true
	default:
		return Request{}, BadRequest("bad_explain", "The parameter explain must be 0 or 1, not %.40q.", s)
	}
	return r, nil
}

// Time returns the time that the request names, or the zero time.
func (r *Request) Time() time.Time {
	if r.At == NoTime {
		return time.Time{}
	}
	return time.UnixMilli(r.At).UTC()
}

func integer(values url.Values, name string, def, low, high int) (int, *Error) {
	s := values.Get(name)
	if s == "" {
		return def, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < low || n > high {
		return 0, BadRequest("bad_"+name, "The %s %.40q is not a whole number from %d to %d.", name, s, low, high)
	}
	return n, nil
}

// only refuses unknown and repeated parameters: an answer that ignored half of the
// question would be wrong.
func only(values url.Values, known ...string) *Error {
	for name, v := range values {
		if !slices.Contains(known, name) {
			return BadRequest("unknown_parameter", "Unknown parameter %.40q.", name)
		}
		if len(v) > 1 {
			return BadRequest("repeated_parameter", "The parameter %s occurs %d times.", name, len(v))
		}
	}
	return nil
}
