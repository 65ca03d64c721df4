package ingest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/hit"
)

// Headers of a message that is set aside.
const (
	HeaderPoisonSubject   = "Hotboard-Original-Subject"
	HeaderPoisonSequence  = "Hotboard-Original-Sequence" // in the stream hit.Stream
	HeaderPoisonError     = "Hotboard-Error"
	HeaderPoisonTruncated = "Hotboard-Truncated" // size of the original body in bytes
)

// maxHeaderText is the most bytes of an error in a header. The broker refuses a
// message with more than 64 KiB of headers.
const maxHeaderText = 1 << 10

// setAside copies an unreadable message to the stream for such messages. It reports
// whether the copy is new: reading the log again brings the same message again.
func setAside(ctx context.Context, js jetstream.JetStream, shard int, m *fold.Message) (first bool, err error) {
	msg := nats.NewMsg(hit.SubjectPoison + "." + strconv.Itoa(shard))
	msg.Data = m.Data
	msg.Header.Set(HeaderPoisonSubject, m.Subject)
	msg.Header.Set(HeaderPoisonSequence, strconv.FormatUint(m.Seq, 10))
	msg.Header.Set(HeaderPoisonError, headerText(m.Err.Error()))
	if m.BatchSeq != 0 {
		msg.Header.Set(hit.HeaderSeq, strconv.FormatUint(m.BatchSeq, 10))
		msg.Header.Set(hit.HeaderLast, strconv.FormatUint(m.LastSeq, 10))
	}
	if len(m.Data) > hit.MaxBatchBytes {
		// The copy has more headers than the original, so it could be too large.
		msg.Data = m.Data[:hit.MaxBatchBytes]
		msg.Header.Set(HeaderPoisonTruncated, strconv.Itoa(len(m.Data)))
	}
	id := fmt.Sprintf("%d-%016x", m.Seq, fold.Fingerprint(m.Subject, m.Received, m.Data))
	ack, err := js.PublishMsg(ctx, msg, jetstream.WithMsgID(id))
	if err != nil {
		return false, fmt.Errorf("setting aside message %d, which cannot be read (%w): %w", m.Seq, m.Err, err)
	}
	return !ack.Duplicate, nil
}

// headerText fits a text into a header: one line of at most maxHeaderText bytes, in
// whole characters.
func headerText(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsControl(r) {
			r = ' '
		}
		if b.Len()+utf8.RuneLen(r) > maxHeaderText {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}
