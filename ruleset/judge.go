package ruleset

import "net/http"

// RequestKind is the way in which a view comes to be known.
type RequestKind uint8

// The kinds of requests.
const (
	// PageRequest is a live request for a page.
	PageRequest RequestKind = iota
	// LoggedRequest is a request for a page, read from an access log. Logs have few
	// headers or none, and no script follows that confirms a speculative view.
	LoggedRequest
	// BeaconRequest is a request by which a page's script reports views or votes.
	BeaconRequest
)

// Request is everything that [Ruleset.Judge] needs to know about a request.
type Request struct {
	Kind   RequestKind
	Method string // unused for beacons
	// Header has canonical keys, as net/http makes them; nil where unknown.
	Header http.Header
	// BotClass is one of [BotClasses]; empty for people, and where nobody can tell.
	BotClass string
	// HonorOptOut leaves visitors uncounted who ask for it by Sec-GPC or DNT.
	HonorOptOut bool
}

// Judgment is a decision about a request by itself. The response to a page may
// still change it; see [Judgment.Outcome].
type Judgment struct {
	// Against is the reason why the request is no view by a person, or empty.
	Against Reason
	// Bots is the list that counts the view if Against is [Bot], or nil.
	Bots *List
}

// Judge decides about a request from what is known before its response. Pages,
// beacons and lines of access logs are all judged here, so that the same request
// gets the same reason everywhere.
//
// A bot is a bot whatever else it asks for, except that other methods, pushes and
// parts of a page are never views. Beacons of bots count nowhere.
func (r *Ruleset) Judge(q Request) Judgment {
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

// Final reports whether no response can turn the request into a view.
func (j Judgment) Final() bool {
	return j.Against != "" && j.Against != Speculative && j.Bots == nil
}

// Outcome decides about one target of the request, once the response is known. It
// returns the reason why the list that [Judgment.Counting] names does not count the
// view, or nothing. A speculative view with an empty outcome counts when its page is
// shown. The header is nil where the response's headers are unknown.
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

// Counting returns the list that counts a view of a target: the one for bots, or the
// target's own.
func (j Judgment) Counting(t *Target) *List {
	if j.Bots != nil {
		return j.Bots
	}
	return t.List
}

// Reason returns what an outcome means for the target's own list.
func (j Judgment) Reason(outcome Reason) Reason {
	if j.Against != "" {
		return j.Against
	}
	return outcome
}
