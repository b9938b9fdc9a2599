package machine

import (
	"strings"
	"unicode/utf8"
)

// The limits of the protocol, in bytes.
const (
	MaxError    = 8 * 1024
	MaxOutput   = 64 * 1024
	MaxProgress = 1024
	MaxOffset   = 64 * 1024
)

const mark = "…"

// Shorten returns the beginning of the text, in at most limit bytes of valid UTF-8, marked if something is missing.
func Shorten(text string, limit int) string {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	if len(text) <= limit {
		return text
	}
	end := limit - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}
