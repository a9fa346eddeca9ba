package httpapi

import (
	"encoding/csv"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/pkg/contract"
)

// validFormat checks the format of a list that may be an export.
func validFormat(query url.Values) error {
	if format := query.Get("format"); query.Has("format") && format != "csv" && format != "json" {
		return contract.InvalidField("format", "must be csv or json")
	}
	return nil
}

// acceptsCSV reports whether the query has the format csv, or has none and the Accept header names text/csv and does
// not prefer application/json.
func acceptsCSV(r *http.Request) bool {
	if query := r.URL.Query(); query.Has("format") {
		return query.Get("format") == "csv"
	}
	quality := map[string]float64{} // by media type, 0 to 1
	for element := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		media, params, err := mime.ParseMediaType(element)
		if err != nil {
			continue
		}
		quality[media] = 1
		if q, ok := params["q"]; ok {
			quality[media], _ = strconv.ParseFloat(q, 64) // 0 if q is not a number
		}
	}
	return quality["text/csv"] > 0 && quality["text/csv"] >= quality["application/json"]
}

// sheet is a CSV export for spreadsheets: in UTF-8 with its mark, without formulas and without numbers that they round.
type sheet struct{ out *csv.Writer }

// byteOrderMark marks a file as UTF-8 for spreadsheets.
const byteOrderMark = "\ufeff"

// newSheet begins the response with the names of the columns. Errors of the connection are returned by flush.
func newSheet(w http.ResponseWriter, name string, columns ...string) *sheet {
	w.Header().Set("Content-Type", "text/csv; charset=utf-8; header=present")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`.csv"`)
	_, _ = io.WriteString(w, byteOrderMark)
	s := &sheet{csv.NewWriter(w)}
	s.row(columns...)
	return s
}

func (s *sheet) row(fields ...string) {
	for i := range fields {
		fields[i] = cell(fields[i])
	}
	_ = s.out.Write(fields)
}

// flush sends the rows. An error means that the client has disconnected.
func (s *sheet) flush() error {
	s.out.Flush()
	return s.out.Error()
}

// timestamp returns "" for nil.
func timestamp(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// formula matches what a spreadsheet may evaluate, with the separator before it. A spreadsheet may split a cell at ;
// and at white space other than a blank.
var formula = regexp.MustCompile(`(^|[;；\t\r\n][\s"]*)([=+\-@＝＋－＠])`)

// longNumber matches a number of which a spreadsheet would keep 15 digits.
var longNumber = regexp.MustCompile(`^\d{16,}$`)

// cell returns a field as spreadsheets read it: with a ' before each part that they would evaluate as a formula, and
// before a number that they would round. Every phone number begins with + and has one, too.
func cell(s string) string {
	s = formula.ReplaceAllString(s, "$1'$2")
	if longNumber.MatchString(s) || strings.HasPrefix(s, "\t") || strings.HasPrefix(s, "\r") || strings.HasPrefix(s, "\n") {
		return "'" + s
	}
	return s
}
