package ruleset

import "net/http"

// RequestKind is the source of a request: a page, a line of a log or a beacon.
type RequestKind uint8

// The kinds of requests.
const (
	// PageRequest is a live request for a page.
	PageRequest RequestKind = iota
	// LoggedRequest is a request for a page, read from an access log. Logs
	// contain few or no headers, and no script confirms a speculative view later.
	LoggedRequest
	// BeaconRequest is a request in which a page's script reports views or votes.
	BeaconRequest
)

// Request holds what [Rules.Judge] needs to know about a request.
type Request struct {
	Kind   RequestKind
	Method string // unused for beacons
	// Header has canonical keys, as in net/http. It is nil if unknown.
	Header http.Header
	// BotClass is one of [BotClasses]. It is empty for people and for unknown
	// clients.
	BotClass string
	// HonorOptOut excludes visitors who opt out with Sec-GPC or DNT.
	HonorOptOut bool
}

// Judgment is the decision about a request before its response. The response to a
// page may still change it; see [Judgment.Outcome].
type Judgment struct {
	// Against is the reason why the request is not a view by a person, or empty.
	Against Reason
	// Bots is the list that counts the view if Against is [Bot], or nil.
	Bots *List
}

// Judge decides about a request from what is known before its response. It judges
// pages, beacons and lines of access logs alike, so that the same request gets
// the same reason everywhere.
//
// Bot takes precedence over other reasons, except that other methods, pushes and
// parts of a page are never views. Beacons of bots count on no list.
func (r *Rules) Judge(q Request) Judgment {
	against := q.check()
	switch {
	case against == Method || against == Push || against == Range:
	case q.BotClass != "":
		j := Judgment{Against: Bot}
		if q.Kind != BeaconRequest {
			j.Bots = r.CountBot(q.BotClass)
		}
		return j
	case against == NotDocument:
	case q.HonorOptOut && optedOut(q.Header):
		against = OptOut
	}
	return Judgment{Against: against}
}

// Final reports whether the decision is final: no response can make it a view.
func (j Judgment) Final() bool {
	return j.Against != "" && j.Against != Speculative && j.Bots == nil
}

// Outcome decides about one target of the request, given the response. It returns
// the reason why the list from [Judgment.Counting] does not count the view, or an
// empty reason. A speculative view with an empty outcome counts when the visitor
// sees the page. A nil header means that the response's headers are unknown.
func (j Judgment) Outcome(t *Target, status int, h http.Header) Reason {
	if j.Final() {
		return j.Against
	}
	if reason := t.List.checkResponse(status, h); reason != "" {
		return reason
	}
	if t.Item == "" {
		return BadItem
	}
	return ""
}

// Counting returns the list that counts a view of a target: the bots' list or the
// target's own.
func (j Judgment) Counting(t *Target) *List {
	if j.Bots != nil {
		return j.Bots
	}
	return t.List
}

// Reason translates an outcome into the reason for the target's own list.
func (j Judgment) Reason(outcome Reason) Reason {
	if j.Against != "" {
		return j.Against
	}
	return outcome
}
