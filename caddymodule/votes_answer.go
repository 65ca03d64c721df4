package caddymodule

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/hotboard/hotboard/ruleset"
)

// votesAnswer is the answer to votes that were judged separately.
type votesAnswer struct {
	// OK reports that every vote was accepted.
	OK bool `json:"ok"`
	// Votes has a result for each vote, in order.
	Votes []voteResult `json:"votes"`
	// Error and RetryAfter are present if no vote was accepted.
	Error      *problemBody `json:"error,omitempty"`
	RetryAfter int          `json:"retry_after,omitempty"`
}

// voteResult is the result of one vote.
type voteResult struct {
	List   string `json:"list"`
	Option string `json:"option"`
	// Accepted reports that the vote is on disk: an aggregator will judge it.
	Accepted bool `json:"accepted"`
	// Reason is why a vote was not accepted.
	Reason ruleset.Reason `json:"reason,omitempty"`
	// Verdict is an aggregator's verdict on an accepted vote, or pending. It is
	// present if the site waits for it.
	Verdict string `json:"verdict,omitempty"`
	// Score and Rank are the option's on the all-time board, after the vote.
	Score float64 `json:"score,omitempty"`
	Rank  int64   `json:"rank,omitempty"`
	// RetryAfter is the time in seconds after which the same vote could count. It
	// is absent if the vote never will.
	RetryAfter int `json:"retry_after,omitempty"`
}

// answerVotes answers with the results of all votes: 200 if every verdict is
// known, 202 if votes are accepted, and 429 if the limits admit none.
func (h *instance) answerVotes(w http.ResponseWriter, ballots []ballot, batch bool) {
	answer := votesAnswer{OK: true, Votes: make([]voteResult, len(ballots))}
	accepted, undecided := 0, 0
	for i := range ballots {
		v := ballots[i].result
		answer.Votes[i] = v
		if !v.Accepted {
			answer.OK = false
			continue
		}
		accepted++
		if v.Verdict == "" || v.Verdict == verdictPending {
			undecided++
		}
	}
	if !batch {
		ballots[0].decision.WriteHeader(w.Header())
	}
	switch {
	case accepted == 0:
		answer.refuse(ballots)
		if answer.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(answer.RetryAfter))
		}
		writeJSON(w, http.StatusTooManyRequests, answer)
	case undecided == 0:
		writeJSON(w, http.StatusOK, answer)
	default:
		writeJSON(w, http.StatusAccepted, answer)
	}
}

// refuse explains why the limits admit no vote, by the vote that they would admit
// first.
func (a *votesAnswer) refuse(ballots []ballot) {
	first := &ballots[0]
	for i := range ballots {
		b := &ballots[i]
		if after := b.result.RetryAfter; after > 0 && (first.result.RetryAfter == 0 || after < first.result.RetryAfter) {
			first = b
		}
	}
	a.RetryAfter = first.result.RetryAfter
	when := "."
	if a.RetryAfter > 0 {
		when = fmt.Sprintf(" for another %d s.", a.RetryAfter)
	}
	a.Error = &problemBody{
		Code:    string(first.result.Reason),
		Message: fmt.Sprintf("The limit %s admits no more votes%s", first.decision.Refused.Name, when),
	}
}
