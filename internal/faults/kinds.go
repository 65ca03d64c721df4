package faults

// Kind is a sort of fault; the label of its metrics. docs/operations.md has a row
// for each.
type Kind string

// Conditions of an aggregator.
const (
	StoreAway   Kind = "store_away"   // the store cannot be read or written
	StoreEvicts Kind = "store_evicts" // the store may drop keys, or has dropped some
	LogAway     Kind = "log_away"     // the log cannot be read
	LogShards   Kind = "log_shards"   // the log and the store have different numbers of shards
	LogFull     Kind = "log_full"     // the log is full of what is not counted yet and refuses more
	LogRefuses  Kind = "log_refuses"  // the log stores nothing, though it can be reached
	Gap         Kind = "gap"          // batches are missing before others that came
	NewerEdge   Kind = "newer_edge"   // an edge writes batches that this build cannot read
	Behind      Kind = "behind"       // accepted hits are not counted in time
	Incomplete  Kind = "incomplete"   // the counts lack hits that are gone for good
)

// Events of an aggregator.
const (
	Poisoned    Kind = "poisoned_message" // a message could not be read and was set aside
	BatchesLost Kind = "batches_lost"     // batches that neither the log nor an edge has any more
	LogReplaced Kind = "log_replaced"     // the stream is not the one that was read, or lost its tail
	StoreBehind Kind = "store_behind"     // the store went back to an older state
)

// Aggregator is every kind that an aggregator can have.
var Aggregator = []Kind{
	StoreAway, StoreEvicts, LogAway, LogShards, LogFull, LogRefuses, Gap, NewerEdge, Behind, Incomplete,
	Poisoned, BatchesLost, LogReplaced, StoreBehind,
}
