package caddymodule

import (
	"fmt"
	"mime"
	"net/http"
	"time"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

const (
	// maxVotes is the maximum number of votes in one call.
	maxVotes = 100
	// maxUserBytes is the maximum length of a user in a body.
	maxUserBytes = 256
)

// vote is one vote, as in a request body.
type vote struct {
	// List is required if a site has several polls.
	List   string `json:"list"`
	Option string `json:"option"`
	// User is the voter. Only that signed-in user and the site's own server may
	// name one.
	User string `json:"user"`
	// Channel is the origin of the vote. Default: the request's channel.
	Channel string `json:"channel"`
}

// readVotes reads the body. It accepts only JSON: a page of another site can send
// any type that forms have, with the visitor's cookies, even in the syntax of
// JSON, but needs permission (by CORS) to send JSON.
func readVotes(w http.ResponseWriter, r *http.Request) (votes []vote, batch bool, p *problem) {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return nil, false, refuse(http.StatusUnsupportedMediaType, "unsupported_media_type", "Send votes with the Content-Type application/json.")
	}
	votes, batch, p = readObjects[vote](w, r, `{"list":"…","option":"…"}`)
	if len(votes) > maxVotes {
		return nil, batch, refuse(http.StatusBadRequest, "too_many_votes", "A call may contain at most %d votes; this one has %d.", maxVotes, len(votes))
	}
	return votes, batch, p
}

// ballotsOf returns the ballots of all votes, or none.
func (h *instance) ballotsOf(r *http.Request, votes []vote) ([]ballot, *problem) {
	sender := h.clientOf(r)
	ballots := make([]ballot, len(votes))
	for i := range votes {
		b, reason, p := h.ballotOf(&votes[i], sender)
		if p != nil {
			if reason != "" {
				h.conclude(r, &sender, b.list, "", reason)
			}
			if len(votes) > 1 {
				p.message = fmt.Sprintf("Vote %d: %s", i+1, p.message)
			}
			return nil, p
		}
		ballots[i] = b
	}
	return ballots, nil
}

// ballotOf returns the ballot of a vote, or why the vote is invalid.
func (h *instance) ballotOf(v *vote, sender client) (b ballot, reason ruleset.Reason, p *problem) {
	bad := func(reason ruleset.Reason, status int, format string, args ...any) (ballot, ruleset.Reason, *problem) {
		return b, reason, refuse(status, string(reason), format, args...)
	}
	if b.list, p = h.pollNamed(v.List); p != nil {
		if p.code == string(ruleset.UnknownList) {
			reason = ruleset.UnknownList
		}
		return b, reason, p
	}
	if v.Option == "" {
		return bad(ruleset.BadItem, http.StatusBadRequest, "The option is missing.")
	}
	if err := hit.ValidID(v.Option); err != nil {
		return bad(ruleset.BadItem, http.StatusBadRequest, "The option cannot be used: %v.", err)
	}
	switch against := b.list.CheckVote(v.Option, sender.time); against {
	case "":
	case ruleset.UnknownItem:
		return bad(against, http.StatusBadRequest, "The poll %s has no option %.80q.", b.list.Name, v.Option)
	case ruleset.NotOpen:
		b, reason, p = bad(against, http.StatusConflict, "The poll %s opens at %s.", b.list.Name, b.list.Votes.Opens.UTC().Format(time.RFC3339))
		p.retryAfter = seconds(b.list.Votes.Opens.Sub(sender.time))
		return b, reason, p
	default:
		return bad(against, http.StatusConflict, "The poll %s closed at %s.", b.list.Name, b.list.Votes.Closes.UTC().Format(time.RFC3339))
	}

	b.client = sender
	if v.Channel != "" {
		if b.client.channel = validChannel(v.Channel); b.client.channel == "" {
			return bad(ruleset.BadChannel, http.StatusBadRequest, "A channel has 1 to %d bytes of UTF-8 and no control characters.", hit.MaxChannelBytes)
		}
	}
	switch {
	case v.User == "" || v.User == sender.user:
	case len(v.User) > maxUserBytes || hit.ValidID(v.User) != nil:
		return bad(ruleset.BadUser, http.StatusBadRequest, "A user has 1 to %d bytes of UTF-8 and no control characters.", maxUserBytes)
	case sender.user != "":
		return bad(ruleset.UserMismatch, http.StatusForbidden, "The vote names another user than the one who is signed in.")
	case !h.UserFromBody:
		return bad(ruleset.UserNotAllowed, http.StatusForbidden, "A vote cannot name its user here: leave user out.")
	default:
		b.client.user, b.named = v.User, true
	}
	if b.list.Votes.RequireUser && b.client.user == "" {
		return bad(ruleset.UserRequired, http.StatusUnauthorized, "The poll %s is for users who are signed in.", b.list.Name)
	}
	b.limited = b.client.limited(b.list, v.Option)
	b.result = voteResult{List: b.list.Name, Option: v.Option}
	return b, "", nil
}

// pollNamed returns the poll of a vote. The default is the site's only poll.
func (h *instance) pollNamed(name string) (*ruleset.List, *problem) {
	var only *ruleset.List
	polls := 0
	for _, l := range h.lists {
		switch {
		case l.Name == name && l.Votes == nil:
			return nil, refuse(http.StatusBadRequest, "not_a_poll", "The list %s is not a poll.", name)
		case l.Name == name:
			return l, nil
		case l.Votes != nil:
			only = l
			polls++
		}
	}
	switch {
	case name != "":
		return nil, refuse(http.StatusBadRequest, string(ruleset.UnknownList), "Unknown list %.80q.", name)
	case polls == 1:
		return only, nil
	}
	return nil, refuse(http.StatusBadRequest, "list_required", "The list is missing. It is optional only if the site has exactly one poll.")
}
