package bots

import "strings"

// text is a User-Agent in the forms that rules need.
type text struct {
	raw   string
	lower string
	// mozilla means that it begins like those of browsers. comment is the text in
	// the first parentheses, in lower case.
	mozilla bool
	comment string
	// said is lower without the comment of an Android browser, which contains the
	// name of the device: there are phones called CUBOT, Spider and Robot.
	said string
	// app means that it belongs to a program on a phone or tablet.
	app bool
}

func newText(userAgent string) text {
	// Some lists, and programs that copy from them, keep the quotes.
	t := text{raw: strings.Trim(strings.TrimSpace(userAgent), `"'`)}
	t.lower = toLower(t.raw)
	t.mozilla = strings.HasPrefix(t.lower, "mozilla/")
	t.said = t.lower
	if _, rest, ok := strings.Cut(t.lower, "("); ok {
		var behind string
		t.comment, behind, _ = strings.Cut(rest, ")")
		if t.mozilla && strings.Contains(t.comment, "android ") && !strings.Contains(t.comment, "compatible") {
			t.said = behind
		}
	}
	t.app = t.hasAny(apps...)
	return t
}

func (t *text) hasAny(texts ...string) bool {
	for _, s := range texts {
		if strings.Contains(t.lower, s) {
			return true
		}
	}
	return false
}

// toLower returns s with ASCII letters in lower case. All other bytes stay, so
// that indexes into s and the result correspond.
func toLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		b[i] = lower(c)
	}
	return string(b)
}

func isLetter(c byte) bool { return 'a' <= lower(c) && lower(c) <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
