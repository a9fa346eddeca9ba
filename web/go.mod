module flashsale.internal/web

go 1.26.0
