package caddymodule

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hotboard/hotboard/caddymodule/limit"
	"github.com/hotboard/hotboard/caddymodule/outcomes"
	"github.com/hotboard/hotboard/caddymodule/visitors"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// secretsRetryAfter is the advised delay, in seconds, for a vote that arrives
// before the edge has the shared secrets: usually just after its start.
const secretsRetryAfter = 2

// verdictPending is the verdict on a vote that no aggregator has judged in time.
const verdictPending = "pending"

// ballot is a vote that is valid for its poll.
type ballot struct {
	list     *ruleset.List
	client   client // with the user and the channel of this vote
	named    bool   // the body names its user
	limited  limit.Hit
	hit      hit.Hit
	decision limit.Decision
	result   voteResult
}

// serveVotes answers POST /api/votes: one vote or an array of votes. After a 2xx,
// the accepted votes are on disk. An invalid vote refuses the whole call; limits
// judge each vote separately, in order.
func (h *instance) serveVotes(w http.ResponseWriter, r *http.Request) *problem {
	if p := h.AllowOrigins.check(r); p != nil {
		return p
	}
	votes, batch, p := readVotes(w, r)
	if p != nil {
		return p
	}
	if len(h.lists) == 0 {
		return votesUnavailable() // until the edge knows the rules
	}
	ballots, p := h.ballotsOf(r, votes)
	if p != nil {
		return p
	}
	now := ballots[0].client.time
	if reason := h.judgeVoter(r, ballots); reason != "" {
		h.concludeVotes(r, ballots, reason)
		return refuse(http.StatusForbidden, string(reason), "%s", voterRefusals[reason])
	}
	rt, err := h.app.acquire()
	if err != nil || !h.prepareHits(rt, ballots, now) {
		h.concludeVotes(r, ballots, ruleset.Unavailable)
		return votesUnavailable()
	}

	hits := h.take(ballots, now)
	var waiting *outcomes.Awaited
	if h.Confirm > 0 && len(hits) > 0 {
		if waiting = rt.outcomes.Await(hits); waiting != nil {
			defer waiting.End()
		}
	}
	if err := rt.outbox.Append(r.Context(), hits...); err != nil {
		if gone(r, err) {
			return nil // the votes may or may not be on disk
		}
		h.undo(ballots, now)
		h.logRefused("cannot accept votes", err)
		h.concludeVotes(r, ballots, ruleset.DroppedQueueFull)
		return unavailable(spoolRetryAfter, string(ruleset.Unavailable), "Votes cannot be stored now. Send this again later.")
	}
	var known map[uint64]hit.VoteOutcome
	if waiting != nil {
		known = waiting.Wait(r.Context(), time.Duration(h.Confirm))
	}
	h.conclusions(r, ballots, hits, known, now)
	h.answerVotes(w, ballots, batch)
	return nil
}

func votesUnavailable() *problem {
	return unavailable(secretsRetryAfter, string(ruleset.Unavailable), "Votes cannot be taken now. Send this again later.")
}

// voterRefusals are reasons to refuse votes regardless of the poll.
var voterRefusals = map[ruleset.Reason]string{
	ruleset.Bot:         "Bots cannot vote, and the User-Agent belongs to a bot.",
	ruleset.Speculative: "The browser has prefetched or prerendered the page: nobody has seen it yet.",
}

// judgeVoter returns why the sender of a request may not vote, or nothing. An
// opted-out visitor who votes wants that vote to count. A call that names its
// users comes from the site's own server, which is a program.
func (h *instance) judgeVoter(r *http.Request, ballots []ballot) ruleset.Reason {
	q := ruleset.Request{Kind: ruleset.BeaconRequest, Header: r.Header}
	for i := range ballots {
		if !ballots[i].named {
			q.BotClass = cmp.Or(q.BotClass, ballots[i].client.bot.Class)
		}
	}
	return h.rules.Judge(q).Against
}

// prepareHits makes the hits of ballots. It returns false if it needs a secret
// that is not known to be shared with all edges: another edge would not recognize
// the voter.
func (h *instance) prepareHits(rt *runtime, ballots []ballot, now time.Time) bool {
	for i := range ballots {
		b := &ballots[i]
		quotas, ok := h.limits.AppendQuotas(nil, &b.limited, now, rt.secrets.Shared)
		if !ok {
			return false
		}
		b.hit = hit.Hit{
			Kind: hit.Vote, List: b.list.Name, Item: b.limited.Item, Rules: h.rules.ID(),
			Time: now.UnixMilli(), Channel: b.client.channel,
			Quotas: quotas,
		}
		if b.client.user == "" {
			b.hit.Visitor = b.client.who.Pseudonym(rt.secrets.OfDay(now))
			continue
		}
		key := rt.secrets.Shared(calendar.All, time.Time{})
		if key == nil {
			return false
		}
		b.hit.Visitor = visitors.User(b.client.user).Pseudonym(key)
	}
	return true
}

// take charges ballots to the limits, and returns the hits of the admitted ones.
func (h *instance) take(ballots []ballot, now time.Time) (hits []hit.Hit) {
	for i := range ballots {
		b := &ballots[i]
		b.decision = h.limits.Take(&b.limited, b.hit.Quotas, now)
		countShadowed(b.list, &b.decision)
		if b.decision.Refused == nil {
			hits = append(hits, b.hit)
			b.result.Accepted = true
		}
	}
	return hits
}

// gone reports whether err only means that the sender of r has disconnected.
func gone(r *http.Request, err error) bool {
	return r.Context().Err() != nil && errors.Is(err, context.Cause(r.Context()))
}

// undo reverses the charges of accepted votes. If they are on disk after all, an
// aggregator counts them and reports used-up keys.
func (h *instance) undo(ballots []ballot, now time.Time) {
	for i := range ballots {
		if b := &ballots[i]; b.decision.Refused == nil {
			h.limits.Undo(&b.limited, b.hit.Quotas, now, b.decision.Shadowed...)
		}
	}
}

// conclusions records the verdict on each vote: from the limits, or from an
// aggregator if known. hits are those of accepted votes, in order.
func (h *instance) conclusions(r *http.Request, ballots []ballot, hits []hit.Hit, known map[uint64]hit.VoteOutcome, now time.Time) {
	for i := range ballots {
		b := &ballots[i]
		if l := b.decision.Refused; l != nil {
			b.result.Reason = l.Reason()
			b.result.RetryAfter = seconds(b.decision.RetryAfter)
			h.conclude(r, &b.client, b.list, b.result.Option, l.Reason())
			continue
		}
		reason := ruleset.Counted
		if h.Confirm > 0 {
			b.result.Verdict = verdictPending
			if o, ok := known[hits[0].Confirm]; ok {
				reason = ruleset.Reason(o.Reason)
				b.result.Verdict, b.result.Score, b.result.Rank = o.Reason, o.Score, o.Rank
				if reason != ruleset.Counted {
					// It uses up nothing, except keys that aggregators report as
					// used up.
					h.limits.Undo(&b.limited, b.hit.Quotas, now, b.decision.Shadowed...)
				}
				if reason == ruleset.OverQuota {
					b.result.RetryAfter = h.retryAfter(b.list, o.Limit, now)
				}
			}
		}
		hits = hits[1:]
		h.conclude(r, &b.client, b.list, b.result.Option, reason)
	}
}

// retryAfter returns the earliest time in seconds at which a limit can count a
// vote again; 0 if never.
func (h *instance) retryAfter(list *ruleset.List, name string, now time.Time) int {
	l := h.rules.Limit(name)
	if l == nil {
		return 0
	}
	first := 0
	for i := range l.Windows {
		w := &l.Windows[i]
		if w.IsRate() {
			continue
		}
		if _, end := w.Period().Bounds(now, list.Location()); !end.IsZero() {
			if s := seconds(end.Sub(now)); first == 0 || s < first {
				first = s
			}
		}
	}
	return first
}

// concludeVotes records one verdict for all votes of a call.
func (h *instance) concludeVotes(r *http.Request, ballots []ballot, reason ruleset.Reason) {
	for i := range ballots {
		b := &ballots[i]
		h.conclude(r, &b.client, b.list, b.result.Option, reason)
	}
}

// seconds returns d in whole seconds, rounded up.
func seconds(d time.Duration) int {
	s := int(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}
