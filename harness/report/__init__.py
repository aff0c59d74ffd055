"""From rows to what people look at: tables, comparisons, the report's page, pictures, exports."""
