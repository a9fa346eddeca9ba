package telemetry

import "go.opentelemetry.io/otel/attribute"

// Names of attributes, of spans and of metrics. Ids of orders are for spans only: as a label of a metric they would
// never end. User text, tokens and paths are for neither.
const (
	AttrActivityID = attribute.Key("flashsale.activity_id")
	AttrOrderSN    = attribute.Key("flashsale.order_sn")
	AttrBucket     = attribute.Key("flashsale.bucket")
	AttrOutcome    = attribute.Key("flashsale.outcome")
	AttrReason     = attribute.Key("flashsale.reason")
	AttrRoute      = attribute.Key("http.route")
	AttrBatchSize  = attribute.Key("messaging.batch.message_count")
	AttrTopic      = attribute.Key("messaging.destination.name")
	AttrGroup      = attribute.Key("messaging.consumer.group.name")
	AttrSystem     = attribute.Key("messaging.system")
	AttrOperation  = attribute.Key("messaging.operation.type")
	AttrAttempt    = attribute.Key("flashsale.attempt")
	AttrErrorCode  = attribute.Key("flashsale.code")
)
