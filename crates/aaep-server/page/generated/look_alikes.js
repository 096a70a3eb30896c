// Generated from the Unicode tables of confusable characters; a test compares them.
// Greek, Cyrillic, Armenian and Cherokee letters that look like Latin ones.
export const lookAlikes = "ͿΑΒΕΖΗΙΚΜΝΟΡΤΥΧαγινορσυϒϜϭϱϲϳϸϹϺιЅІЈАВЕКМНОРСТУХЫЬЮагеорсухшѕіјѡѴѵѸѹҮүҺһҽӀӏӔӕԁԌԚԛԜԝᲂᲃꙇꚘꚙՍՏՕՠագզհյոռսցւքօᎠᎡᎢᎥᎩᎪᎫᎬᎳᎷᎻᎽᏀᏂᏃᏏᏒᏔᏕᏙᏚᏞᏟᏢᏦᏧᏳᏴꭵꮁꮃꮓꮤꮩꮪꮯ";
