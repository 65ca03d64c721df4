package ruleset

// Reason says what became of a request or of a hit. Its value is a metric label,
// a placeholder and a debug header, so it is short, stable and in snake case.
// The empty Reason means that nothing speaks against a view so far.
type Reason string

// Reasons that the edge and an import give.
const (
	Counted Reason = "counted" // a view; sent to the aggregator

	// What the request alone decides, see [Ruleset.Judge].
	Method      Reason = "method"       // not a GET
	Push        Reason = "push"         // an HTTP/2 server push, which no visitor asked for
	Range       Reason = "range"        // part of a page
	Speculative Reason = "speculative"  // prefetch, prerender or preview; pending until the page's script confirms it
	NotDocument Reason = "not_document" // an image, script, frame or data fetch
	Bot         Reason = "bot"          // the User-Agent is a bot's, or there is none
	BadItem     Reason = "bad_item"     // the id is empty, too long, not UTF-8 or has control characters
	UnknownList Reason = "unknown_list" // a beacon named a list that does not exist
	NoItem      Reason = "no_item"      // a script reported a page that is none of any item
	OptOut      Reason = "opt_out"      // the visitor asks not to be counted (Sec-GPC, DNT), and the site heeds it

	// What limits and polls decide. A limit's reason is "limited:" and its name.
	Limited      Reason = "limited"
	UnknownItem  Reason = "unknown_item"  // a vote for what is no option of its list
	NotOpen      Reason = "not_open"      // a vote before the poll opens
	Closed       Reason = "closed"        // a vote after the poll closed
	UserRequired Reason = "user_required" // a vote of nobody the site knows, in a poll that requires one

	// Why a vote cannot be taken as it is.
	BadChannel     Reason = "bad_channel"      // the channel cannot be one
	BadUser        Reason = "bad_user"         // the user cannot be one
	UserMismatch   Reason = "user_mismatch"    // it names another user than the one who is signed in
	UserNotAllowed Reason = "user_not_allowed" // it names a user, which the site does not allow

	// What the response decides, see [Judgment.Outcome].
	Status      Reason = "status"       // a status that the list does not count
	ContentType Reason = "content_type" // a media type that the list does not count
	Error       Reason = "error"        // a handler failed

	// What happens to a hit after it was accepted.
	DroppedQueueFull Reason = "dropped_queue_full" // more views than the disk takes; the page was served
	Unavailable      Reason = "unavailable"        // a vote while the edge does not know the secrets that edges share
	OverQuota        Reason = "over_quota"         // the aggregator has counted as many of the key as a limit allows
	Duplicate        Reason = "duplicate"          // same visitor and item within the list's dedup time
	Invalid          Reason = "invalid"            // a hit that the aggregator cannot count
)
