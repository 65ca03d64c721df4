package bots

import "strings"

// text is a User-Agent in the forms that rules look at it.
type text struct {
	raw   string
	lower string
	// mozilla says that it begins as those of browsers do, and comment is what
	// stands in the first parentheses, in lower case.
	mozilla bool
	comment string
	// said is lower without the comment of an Android browser, which has the name
	// of the device in it: there are phones called CUBOT, Spider and Robot.
	said string
	// app says that it runs on somebody's phone.
	app bool
}

func newText(userAgent string) text {
	// Some lists, and some who copy from them, leave the quotes on.
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

// toLower returns s with ASCII letters in lower case. All else stays, byte by
// byte, so that places in the one are places in the other.
func toLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		b[i] = lower(c)
	}
	return string(b)
}

func isLetter(c byte) bool { return 'a' <= lower(c) && lower(c) <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
