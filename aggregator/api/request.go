package api

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// Defaults and limits of a query.
const (
	DefaultLimit  = 10
	maxQueryBytes = 4 << 10
	MaxBodyBytes  = 64 << 10
	MaxItems      = 200            // in one call
	MaxBoards     = 20             // in one call
	maxRows       = board.MaxLimit // of all boards in one call
)

// kind is what a request asks for.
type kind uint8

const (
	boardOf kind = iota + 1
	itemOf
	statsOf
	itemsOf  // many, named in a body
	boardsOf // likewise

	boardAt // a board whose list and period are in the path; a request for it is one of boardOf
)

// request is a query in canonical form: two spellings of one question are
// equal, so that they share an answer. It is comparable.
type request struct {
	kind    kind
	list    string
	id      string // of an item; of many, with a zero byte between two
	period  string
	limit   int
	offset  int
	at      int64 // milliseconds since the Unix epoch; noTime when it is not given
	explain bool
}

const noTime = -1 << 63

// Serves reports whether an escaped URL path is one of the reading API's.
func Serves(path string) bool {
	_, _, ok := route(path)
	return ok
}

// methods returns what a path can be asked with.
func methods(path string) []string {
	if k, _, _ := route(path); k == itemsOf || k == boardsOf {
		return []string{http.MethodPost}
	}
	return []string{http.MethodGet, http.MethodHead}
}

// route splits an escaped URL path. An item's id is all that follows its list,
// slashes included.
func route(path string) (k kind, rest string, ok bool) {
	switch path {
	case "/hot", "/api/hot":
		return boardOf, "", true
	case "/api/items":
		return itemsOf, "", true
	case "/api/boards":
		return boardsOf, "", true
	}
	if rest, ok := strings.CutPrefix(path, "/api/boards/"); ok {
		return boardAt, rest, true
	}
	if rest, ok := strings.CutPrefix(path, "/api/items/"); ok {
		return itemOf, rest, true
	}
	if rest, ok := strings.CutPrefix(path, "/api/stats/"); ok {
		return statsOf, rest, true
	}
	return 0, "", false
}

// parse reads a request of an escaped path: one, or those of the boards that a
// body names. defaultList is the list of a request that names none.
func parse(q hit.Query, defaultList string) ([]request, *Error) {
	k, rest, ok := route(q.Path)
	if !ok {
		return nil, notFound(q.Path)
	}
	if len(q.Query) > maxQueryBytes {
		return nil, badRequest("query_too_long", "The query has more than %d bytes.", maxQueryBytes)
	}
	values, err := url.ParseQuery(q.Query)
	if err != nil {
		return nil, badRequest("bad_query", "The query cannot be read: %v.", err)
	}
	if k == itemsOf || k == boardsOf {
		if bad := only(values); bad != nil {
			return nil, bad
		}
		if k == boardsOf {
			return parseBoards(q.Body, defaultList)
		}
		return one(parseItems(q.Body, defaultList))
	}
	return one(parseOne(k, rest, values, defaultList))
}

func one(r request, bad *Error) ([]request, *Error) {
	if bad != nil {
		return nil, bad
	}
	return []request{r}, nil
}

// parseOne reads a request that is all in its path and query.
func parseOne(k kind, rest string, values url.Values, defaultList string) (request, *Error) {
	r := request{kind: k, at: noTime}
	var err error
	switch k {
	case boardOf:
		return r.parseBoard(values, defaultList)
	case boardAt:
		r.kind = boardOf
		if values.Has("list") || values.Has("period") {
			return request{}, badRequest("repeated_parameter", "The list and the period are in the path already.")
		}
		list, period, _ := strings.Cut(rest, "/")
		if list, err = url.PathUnescape(list); err != nil || list == "" {
			return request{}, badRequest("bad_list", "This cannot be the name of a list: %.80q.", rest)
		}
		if period == "" {
			return request{}, badRequest("bad_period", "The path does not end in one of hot, hour, day, week, month and all.")
		}
		values["list"], values["period"] = []string{list}, []string{period}
		return r.parseBoard(values, defaultList)
	case itemOf:
		list, id, _ := strings.Cut(rest, "/")
		if r.id, err = url.PathUnescape(id); err == nil {
			err = hit.ValidID(r.id)
		}
		if err != nil {
			return request{}, badRequest("bad_item", "This cannot be the id of an item: %v.", err)
		}
		rest = list
	}
	if r.list, err = url.PathUnescape(rest); err != nil {
		return request{}, badRequest("bad_list", "This cannot be the name of a list: %v.", err)
	}
	return r, only(values)
}

func (r request) parseBoard(values url.Values, defaultList string) (request, *Error) {
	if err := only(values, "list", "period", "limit", "offset", "at", "explain"); err != nil {
		return request{}, err
	}
	r.list, r.period, r.limit = defaultList, board.Hot, DefaultLimit
	if s := values.Get("list"); s != "" {
		r.list = s
	}
	if s := values.Get("period"); s != "" {
		if s != board.Hot && !ruleset.Period(s).Valid() {
			return request{}, badRequest("bad_period", "period %.40q is none of hot, hour, day, week, month and all.", s)
		}
		r.period = s
	}
	var err *Error
	if r.limit, err = integer(values, "limit", r.limit, 1, board.MaxLimit); err != nil {
		return request{}, err
	}
	if r.offset, err = integer(values, "offset", 0, 0, board.MaxOffset); err != nil {
		return request{}, err
	}
	if s := values.Get("at"); s != "" {
		t, err := time.Parse(time.RFC3339, s)
		if err != nil || t.UTC().Year() < 1970 || t.UTC().Year() > 9999 {
			return request{}, badRequest("bad_at", "at %.60q is not a time as in RFC 3339, such as 2026-11-20T12:00:00Z; a + is written %%2B.", s)
		}
		r.at = t.UnixMilli()
	}
	switch s := values.Get("explain"); s {
	case "", "0", "false":
	case "1", "true":
		r.explain = true
	default:
		return request{}, badRequest("bad_explain", "explain %.40q is neither 0 nor 1.", s)
	}
	return r, nil
}

func (r *request) time() time.Time {
	if r.at == noTime {
		return time.Time{}
	}
	return time.UnixMilli(r.at).UTC()
}

func integer(values url.Values, name string, def, low, high int) (int, *Error) {
	s := values.Get(name)
	if s == "" {
		return def, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < low || n > high {
		return 0, badRequest("bad_"+name, "%s %.40q is not a whole number from %d to %d.", name, s, low, high)
	}
	return n, nil
}

// only refuses parameters that are not known or given twice: an answer to half
// of a question would be a wrong one.
func only(values url.Values, known ...string) *Error {
	for name, v := range values {
		if !slices.Contains(known, name) {
			return badRequest("unknown_parameter", "There is no parameter %.40q here.", name)
		}
		if len(v) > 1 {
			return badRequest("repeated_parameter", "The parameter %s is given %d times.", name, len(v))
		}
	}
	return nil
}

// Error is an answer that is not what was asked for.
type Error struct {
	Status  int    `json:"-"`
	Code    string `json:"code"`    // for programs; stable
	Message string `json:"message"` // one sentence for people
}

func badRequest(code, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Code: code, Message: fmt.Sprintf(format, args...)}
}

func notFound(path string) *Error {
	return &Error{Status: http.StatusNotFound, Code: "not_found", Message: fmt.Sprintf("There is nothing at %.200q.", path)}
}
