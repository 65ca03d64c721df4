package ruleset

// Reason is the verdict about a request or a hit. Its value is a metric label, a
// placeholder and a debug header, so it is short, stable and in snake case. The
// empty Reason means that the request may still be a view.
type Reason string

// Reasons that edges and imports give.
const (
	Counted Reason = "counted" // a view; sent to the aggregator

	// Decided by the request alone, see [Rules.Judge].
	Method      Reason = "method"       // not a GET
	Push        Reason = "push"         // an HTTP/2 server push, which no visitor asked for
	Range       Reason = "range"        // part of a page
	Speculative Reason = "speculative"  // prefetch, prerender or preview; pending until the page's script confirms it
	NotDocument Reason = "not_document" // an image, script, frame or data fetch
	Bot         Reason = "bot"          // the User-Agent is a bot's or missing
	BadItem     Reason = "bad_item"     // the id is empty, too long, not UTF-8 or contains control characters
	UnknownList Reason = "unknown_list" // a beacon named an unknown list
	NoItem      Reason = "no_item"      // a script reported a page without an item
	OptOut      Reason = "opt_out"      // the visitor opts out (Sec-GPC, DNT), and the site honours it

	// Decided by limits and polls. A limit's reason is "limited:" and its name.
	Limited      Reason = "limited"
	UnknownItem  Reason = "unknown_item"  // a vote for an unknown option of its list
	NotOpen      Reason = "not_open"      // a vote before the poll opens
	Closed       Reason = "closed"        // a vote after the poll closed
	UserRequired Reason = "user_required" // a vote without a known user, in a poll that requires one

	// The vote itself is invalid.
	BadChannel     Reason = "bad_channel"      // the channel is invalid
	BadUser        Reason = "bad_user"         // the user is invalid
	UserMismatch   Reason = "user_mismatch"    // the vote names another user than the one who is signed in
	UserNotAllowed Reason = "user_not_allowed" // the vote names a user, which the site does not allow

	// Decided by the response, see [Judgment.Outcome].
	Status      Reason = "status"       // the list does not count the status
	ContentType Reason = "content_type" // the list does not count the media type
	Error       Reason = "error"        // a handler failed

	// Decided after the hit was accepted.
	DroppedQueueFull Reason = "dropped_queue_full" // the disk cannot keep up with the views; the page was served
	Unavailable      Reason = "unavailable"        // the edge does not have the shared secrets yet, so it cannot accept votes
	OverQuota        Reason = "over_quota"         // the aggregator has counted the limit's maximum for the key already
	Duplicate        Reason = "duplicate"          // same visitor and item within the list's dedup time
	Invalid          Reason = "invalid"            // a hit that the aggregator cannot count
)
